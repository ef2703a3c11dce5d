/** Kinesis through the AWS SDK for JavaScript and its own HTTP handler, which speaks HTTP/2. */
const assert = require("node:assert/strict");
const {
  KinesisClient,
  paginateListStreams,
  waitUntilStreamExists,
  CreateStreamCommand,
  DeleteStreamCommand,
  DeregisterStreamConsumerCommand,
  DescribeStreamCommand,
  DescribeStreamSummaryCommand,
  GetRecordsCommand,
  GetShardIteratorCommand,
  ListShardsCommand,
  MergeShardsCommand,
  PutRecordCommand,
  PutRecordsCommand,
  RegisterStreamConsumerCommand,
  SplitShardCommand,
  SubscribeToShardCommand,
  UpdateShardCountCommand,
} = require("@aws-sdk/client-kinesis");
const { configuration, refused, run } = require("./support.js");

const client = new KinesisClient(configuration(process.env.IT_KINESIS));
const send = (command) => client.send(command);

const stream = { StreamName: "orders" };
const StreamARN = "arn:aws:kinesis:us-east-1:000000000000:stream/orders";
const [first, second, third, fourth, fifth] = [0, 1, 2, 3, 4].map((number) => `shardId-00000000000${number}`);
const text = (records) => records.map((record) => Buffer.from(record.Data).toString()).join("");

/** What is read from here on, and the page that has nothing behind it. */
async function read(position) {
  let { ShardIterator } = await send(new GetShardIteratorCommand({ ...stream, ...position }));
  const records = [];
  for (;;) {
    const page = await send(new GetRecordsCommand({ ShardIterator }));
    records.push(...page.Records);
    if (!page.NextShardIterator || page.Records.length === 0) return [records, page];
    ShardIterator = page.NextShardIterator;
  }
}

async function put(data) {
  const record = { PartitionKey: "a", ExplicitHashKey: "0", Data: Buffer.from(data) };
  return send(new PutRecordCommand({ ...stream, ...record }));
}

async function streams() {
  await send(new CreateStreamCommand({ ...stream, ShardCount: 2, Tags: { team: "blue" } }));
  await waitUntilStreamExists({ client, minDelay: 1, maxWaitTime: 10 }, stream);
  assert.equal(client.config.requestHandler.metadata.handlerProtocol, "h2");
  await refused("ResourceInUseException", "orders", send(new CreateStreamCommand({ ...stream, ShardCount: 2 })));
  const missing = send(new DescribeStreamCommand({ StreamName: "missing" }));
  await refused("ResourceNotFoundException", "Stream missing under account", missing);
  await refused("ValidationException", "shardCount", send(new CreateStreamCommand({ StreamName: "x", ShardCount: 0 })));

  const { StreamDescription: whole } = await send(new DescribeStreamCommand({ StreamARN }));
  assert.deepEqual([whole.StreamStatus, whole.StreamARN, whole.Shards.length], ["ACTIVE", StreamARN, 2]);
  assert.ok(Math.abs(whole.StreamCreationTimestamp - Date.now()) < 60_000, `${whole.StreamCreationTimestamp}`);
  for (let number = 0; number < 5; number += 1) {
    await send(new CreateStreamCommand({ StreamName: `stream-${number}`, ShardCount: 1 }));
  }
  const pages = [];
  for await (const page of paginateListStreams({ client, pageSize: 4 }, {})) pages.push(page.StreamNames);
  assert.deepEqual(pages.map((page) => page.length), [4, 2]);
}

async function records() {
  const empty = await put("");
  assert.equal(empty.ShardId, first);
  for (const data of "1234") await put(data);
  const Records = [...Array(500).keys()].map((number) => ({ PartitionKey: `${number}`, Data: Buffer.from("x") }));
  const many = await send(new PutRecordsCommand({ ...stream, Records }));
  assert.deepEqual([many.FailedRecordCount, many.Records.length], [0, 500]);
  const [all, page] = await read({ ShardId: first, ShardIteratorType: "TRIM_HORIZON" });
  assert.equal(text(all).slice(0, 5), "1234x");
  assert.equal(page.MillisBehindLatest, 0);
  assert.ok(Math.abs(all[0].ApproximateArrivalTimestamp - Date.now()) < 60_000);
  const after = { ShardIteratorType: "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber: all[1].SequenceNumber };
  assert.equal(text((await read({ ShardId: first, ...after }))[0]).slice(0, 3), "234");
  const since = { ShardIteratorType: "AT_TIMESTAMP", Timestamp: new Date(Date.now() - 3_600_000) };
  assert.equal((await read({ ShardId: first, ...since }))[0].length, all.length);
  const odd = { ShardId: first, ...after, StartingSequenceNumber: "5" };
  await refused("InvalidArgumentException", "is invalid", read(odd));
  await refused("InvalidArgumentException", "ShardIterator", send(new GetRecordsCommand({ ShardIterator: "x" })));
  const keyless = { ...stream, PartitionKey: "", Data: Buffer.of() };
  await refused("ValidationException", "partitionKey", send(new PutRecordCommand(keyless)));
}

async function shards() {
  const NewStartingHashKey = `${2n ** 126n}`;
  await send(new SplitShardCommand({ ...stream, ShardToSplit: first, NewStartingHashKey }));
  await send(new MergeShardsCommand({ ...stream, ShardToMerge: fourth, AdjacentShardToMerge: second }));
  const list = async (request) => {
    const { Shards, NextToken } = await send(new ListShardsCommand(request));
    return [Shards.map((shard) => shard.ShardId), NextToken];
  };
  assert.deepEqual(await list({ ...stream, ShardFilter: { Type: "AT_LATEST" } }), [[third, fifth], undefined]);
  const [page, NextToken] = await list({ ...stream, MaxResults: 3 });
  assert.deepEqual([page, await list({ NextToken })], [[first, second, third], [[fourth, fifth], undefined]]);
  await refused("InvalidArgumentException", "NextToken", list({ ...stream, NextToken }));
  for (const [shard, children, parents] of [[first, [third, fourth], [first]], [second, [fifth], [fourth, second]]]) {
    const [, end] = await read({ ShardId: shard, ShardIteratorType: "TRIM_HORIZON" });
    assert.equal(end.NextShardIterator, undefined);
    assert.deepEqual(end.ChildShards.map((child) => child.ShardId), children);
    assert.deepEqual(end.ChildShards[0].ParentShards, parents);
  }
  const scale = (TargetShardCount) =>
    send(new UpdateShardCountCommand({ ...stream, TargetShardCount, ScalingType: "UNIFORM_SCALING" }));
  await refused("LimitExceededException", "double", scale(5));
  await scale(4);
  const { StreamDescriptionSummary: summary } = await send(new DescribeStreamSummaryCommand(stream));
  assert.equal(summary.OpenShardCount, 4);
}

async function subscriptions() {
  const consumer = await send(new RegisterStreamConsumerCommand({ StreamARN, ConsumerName: "radar" }));
  const { ConsumerARN } = consumer.Consumer;
  const subscribe = (ShardId, StartingPosition = { Type: "TRIM_HORIZON" }) =>
    send(new SubscribeToShardCommand({ ConsumerARN, ShardId, StartingPosition }));
  await refused("ResourceNotFoundException", "shardId-000000000099", subscribe("shardId-000000000099"));

  // A closed shard to its end, while an open one is followed on the same connection.
  const { ShardId: open } = await put("5");
  const following = await subscribe(open, { Type: "LATEST" });
  const events = following.EventStream[Symbol.asyncIterator]();
  const next = events.next();
  await refused("ResourceInUseException", "active subscription", subscribe(open));
  const found = [];
  let last;
  for await (const { SubscribeToShardEvent: event } of (await subscribe(first)).EventStream) {
    assert.equal(last?.ChildShards, undefined);
    found.push(...event.Records);
    last = event;
  }
  assert.equal(text(found).slice(0, 5), "1234x");
  assert.deepEqual(last.ChildShards.map((child) => child.ShardId), [third, fourth]);

  const late = await put("6");
  const { SubscribeToShardEvent: event } = (await next).value;
  assert.equal(text(event.Records), "6");
  assert.equal(event.ContinuationSequenceNumber, late.SequenceNumber);
  await send(new DeregisterStreamConsumerCommand({ ConsumerARN }));
  await refused("ResourceNotFoundException", "", events.next());
}

async function deleted() {
  await send(new DeleteStreamCommand(stream));
  await refused("ResourceNotFoundException", "orders", put("7"));
  client.destroy();
}

run(streams, records, shards, subscriptions, deleted);
