/** DynamoDB through the AWS SDK for JavaScript, written as a lease table is: every write on a condition. */
const assert = require("node:assert/strict");
const {
  DynamoDBClient,
  paginateScan,
  waitUntilTableExists,
  BatchGetItemCommand,
  CreateTableCommand,
  DeleteItemCommand,
  DeleteTableCommand,
  DescribeTableCommand,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  TransactWriteItemsCommand,
  UpdateItemCommand,
} = require("@aws-sdk/client-dynamodb");
const { configuration, refused, run } = require("./support.js");

const client = new DynamoDBClient(configuration(process.env.IT_DYNAMODB));
const send = (command) => client.send(command);
const table = { TableName: "leases" };
const LOST = "ConditionalCheckFailedException";

const lease = (number, owner) => ({
  leaseKey: { S: `shardId-${`${number}`.padStart(12, "0")}` },
  leaseCounter: { N: "0" },
  checkpoint: { S: "TRIM_HORIZON" },
  checkpointSubSequenceNumber: { N: "0" },
  ...(owner && { leaseOwner: { S: owner } }),
});
const key = (number) => ({ leaseKey: lease(number).leaseKey });
const get = async (number) =>
  (await send(new GetItemCommand({ ...table, Key: key(number), ConsistentRead: true }))).Item;

const create = (number) =>
  send(new PutItemCommand({ ...table, Item: lease(number), ConditionExpression: "attribute_not_exists(leaseKey)" }));

/** Takes or renews a lease that is at this count. */
const take = (number, owner, counter) =>
  send(
    new UpdateItemCommand({
      ...table,
      Key: key(number),
      UpdateExpression: "SET leaseOwner = :owner, leaseCounter = leaseCounter + :one",
      ConditionExpression: "leaseCounter = :counter",
      ExpressionAttributeValues: { ":owner": { S: owner }, ":one": { N: "1" }, ":counter": { N: `${counter}` } },
      ReturnValues: "ALL_NEW",
      ReturnValuesOnConditionCheckFailure: "ALL_OLD",
    }),
  );

async function tables() {
  const keys = {
    AttributeDefinitions: [{ AttributeName: "leaseKey", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "leaseKey", KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
  };
  await refused("ResourceNotFoundException", "", send(new DescribeTableCommand(table)));
  await send(new CreateTableCommand({ ...table, ...keys }));
  await waitUntilTableExists({ client, minDelay: 1, maxWaitTime: 10 }, table);
  await refused("ResourceInUseException", "", send(new CreateTableCommand({ ...table, ...keys })));
}

async function rows() {
  for (let number = 0; number < 30; number += 1) await create(number);
  const lost = await refused(LOST, "conditional", create(0));
  assert.equal(lost.$metadata.httpStatusCode, 400);
  const found = [];
  for await (const page of paginateScan({ client, pageSize: 7 }, { ...table, ConsistentRead: true })) {
    assert.ok(page.Items.length <= 7);
    found.push(...page.Items.map((item) => item.leaseKey.S));
  }
  assert.deepEqual(found.sort(), [...Array(30).keys()].map((number) => lease(number).leaseKey.S));
  const query = { KeyConditionExpression: "leaseKey = :key", ExpressionAttributeValues: { ":key": { S: found[3] } } };
  assert.equal((await send(new QueryCommand({ ...table, ...query }))).Count, 1);
  const Keys = [1, 2, 99].map(key);
  const batch = await send(new BatchGetItemCommand({ RequestItems: { leases: { Keys } } }));
  assert.equal(batch.Responses.leases.length, 2);
}

async function leases() {
  const taken = await take(0, "one", 0);
  assert.deepEqual([taken.Attributes.leaseOwner, taken.Attributes.leaseCounter], [{ S: "one" }, { N: "1" }]);
  const late = await refused(LOST, "", take(0, "two", 0));
  assert.equal(late.Item.leaseOwner.S, "one");
  // Of many who want it at the same count, one gets it.
  for (let counter = 1; counter <= 20; counter += 1) {
    const tries = await Promise.allSettled([...Array(8).keys()].map((who) => take(0, `worker-${who}`, counter)));
    const winners = tries.filter((one) => one.status === "fulfilled");
    assert.equal(winners.length, 1, `${winners.length} took the lease at once`);
    assert.deepEqual(await get(0), winners[0].value.Attributes);
  }
}

async function checkpoints() {
  const write = (owner, checkpoint) =>
    send(
      new UpdateItemCommand({
        ...table,
        Key: key(1),
        UpdateExpression:
          "SET #checkpoint = :checkpoint, ownerSwitches = if_not_exists(ownerSwitches, :none) REMOVE pending",
        ConditionExpression: "leaseOwner = :owner AND attribute_exists(leaseKey)",
        ExpressionAttributeNames: { "#checkpoint": "checkpoint" },
        ExpressionAttributeValues: { ":checkpoint": { S: checkpoint }, ":owner": { S: owner }, ":none": { N: "0" } },
      }),
    );
  await refused(LOST, "", write("one", "49"));
  await take(1, "one", 0);
  await write("one", "49");
  assert.equal((await get(1)).checkpoint.S, "49");
  const ended = {
    ConditionExpression: "#checkpoint = :end",
    ExpressionAttributeNames: { "#checkpoint": "checkpoint" },
    ExpressionAttributeValues: { ":end": { S: "SHARD_END" } },
  };
  const remove = () => send(new DeleteItemCommand({ ...table, Key: key(1), ...ended }));
  await refused(LOST, "", remove());
  await write("one", "SHARD_END");
  await remove();
  assert.equal(await get(1), undefined);
  // Both rows of a split's children, or none.
  const put = (number) => ({
    Put: { ...table, Item: lease(number), ConditionExpression: "attribute_not_exists(leaseKey)" },
  });
  const both = send(new TransactWriteItemsCommand({ TransactItems: [put(40), put(2)] }));
  await refused("TransactionCanceledException", "", both);
  assert.equal(await get(40), undefined);
  await send(new TransactWriteItemsCommand({ TransactItems: [put(40), put(41)] }));
  assert.deepEqual(await get(40), lease(40));
}

async function deleted() {
  await send(new DeleteTableCommand(table));
  await refused("ResourceNotFoundException", "", get(0));
  client.destroy();
}

run(tables, rows, leases, checkpoints, deleted);
