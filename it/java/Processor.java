import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/** Prints the records of a shard, and stores a checkpoint every few of them. */
final class Processor implements ShardRecordProcessor {
    private static final int CHECKPOINT_EVERY = Integer.getInteger("checkpointEvery", 10);
    /** How many records the process may still take; at the limit the shards stand still, checkpointed so far. */
    private static final AtomicInteger LEFT = new AtomicInteger(Integer.getInteger("holdAfter", Integer.MAX_VALUE));
    private static final CountDownLatch STOPPING = new CountDownLatch(1);

    private String shard;
    private KinesisClientRecord last;
    private int sinceCheckpoint;

    @Override
    public void initialize(InitializationInput input) {
        shard = input.shardId();
        Lines.print("shard-started", "shard", shard, "checkpoint", input.extendedSequenceNumber().toString());
    }

    @Override
    public void processRecords(ProcessRecordsInput input) {
        for (KinesisClientRecord record : input.records()) {
            if (LEFT.getAndDecrement() <= 0) {
                checkpoint(input.checkpointer());
                Lines.print("held", "shard", shard);
                waitForTheEnd();
                return;
            }
            print(record);
            last = record;
            sinceCheckpoint += 1;
            if (sinceCheckpoint >= CHECKPOINT_EVERY) {
                checkpoint(input.checkpointer());
            }
        }
        checkpoint(input.checkpointer());
    }

    private void print(KinesisClientRecord record) {
        byte[] data = new byte[record.data().remaining()];
        record.data().duplicate().get(data);
        Lines.print("delivery", "shard", shard, "seq", record.sequenceNumber(), "sub", record.subSequenceNumber(),
                "pk", record.partitionKey(), "ehk", record.explicitHashKey(), "sha256", sha256(data),
                "aggregated", record.aggregated());
    }

    private void checkpoint(RecordProcessorCheckpointer checkpointer) {
        if (sinceCheckpoint == 0) {
            return;
        }
        try {
            checkpointer.checkpoint(last.sequenceNumber(), last.subSequenceNumber());
            sinceCheckpoint = 0;
        } catch (Exception error) {
            Lines.print("checkpoint-failed", "shard", shard, "cause", error.toString());
        }
    }

    @Override
    public void shardEnded(ShardEndedInput input) {
        try {
            input.checkpointer().checkpoint();
            Lines.print("shard-ended", "shard", shard);
        } catch (Exception error) {
            Lines.print("checkpoint-failed", "shard", shard, "cause", error.toString());
        }
    }

    @Override
    public void leaseLost(LeaseLostInput input) {
        Lines.print("lease-lost", "shard", shard);
    }

    @Override
    public void shutdownRequested(ShutdownRequestedInput input) {
        checkpoint(input.checkpointer());
    }

    /** Lets the shards that stand still go on to their end. */
    static void stop() {
        STOPPING.countDown();
    }

    private static void waitForTheEnd() {
        try {
            STOPPING.await();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private static String sha256(byte[] data) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
        } catch (java.security.NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }
}
