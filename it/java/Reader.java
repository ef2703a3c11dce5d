import java.net.URI;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.awscore.client.builder.AwsClientBuilder;
import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.SingleStreamTracker;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * A KCL worker that prints a JSON line for each record and for what happens to its shards, in the words of the probe.
 * It stops in good order at SIGTERM. Its settings are system properties.
 */
public final class Reader {
    private static final String STREAM = System.getProperty("stream");
    private static final String KINESIS = System.getProperty("kinesis");
    private static final String DYNAMODB = System.getProperty("dynamodb");

    public static void main(String[] arguments) throws Exception {
        KinesisAsyncClient kinesis = client(KinesisAsyncClient.builder(), KINESIS)
                .httpClientBuilder(NettyNioAsyncHttpClient.builder().protocol(Protocol.HTTP1_1).maxConcurrency(100))
                .build();
        DynamoDbAsyncClient dynamodb = client(DynamoDbAsyncClient.builder(), DYNAMODB).build();
        // Without metrics nothing is sent to it.
        CloudWatchAsyncClient cloudwatch = client(CloudWatchAsyncClient.builder(), DYNAMODB).build();

        Scheduler scheduler = scheduler(kinesis, dynamodb, cloudwatch);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(scheduler)));
        Lines.print("started");
        scheduler.run();
    }

    private static <B extends AwsClientBuilder<B, C>, C> B client(B builder, String endpoint) {
        return builder.endpointOverride(URI.create(endpoint))
                .region(Region.US_EAST_1)
                .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("test", "test")));
    }

    /** All waits are short, so that a check is. */
    private static Scheduler scheduler(
            KinesisAsyncClient kinesis, DynamoDbAsyncClient dynamodb, CloudWatchAsyncClient cloudwatch) {
        InitialPositionInStreamExtended oldest =
                InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.TRIM_HORIZON);
        ConfigsBuilder configs = new ConfigsBuilder(
                new SingleStreamTracker(STREAM, oldest), System.getProperty("table"), kinesis, dynamodb, cloudwatch,
                System.getProperty("worker"), Processor::new);
        PollingConfig polling = new PollingConfig(STREAM, kinesis).idleTimeBetweenReadsInMillis(250);
        polling.usePollingConfigIdleTimeValue(true);
        return new Scheduler(
                configs.checkpointConfig(),
                Version.configure(configs.coordinatorConfig()
                        .parentShardPollIntervalMillis(500)
                        .shardConsumerDispatchPollIntervalMillis(250)),
                Version.configure(configs.leaseManagementConfig()
                        .failoverTimeMillis(Long.getLong("failoverMillis"))
                        .shardSyncIntervalMillis(1_000)),
                configs.lifecycleConfig(),
                configs.metricsConfig().metricsFactory(new NullMetricsFactory()),
                configs.processorConfig(),
                configs.retrievalConfig().retrievalSpecificConfig(polling));
    }

    private static void stop(Scheduler scheduler) {
        Processor.stop();
        try {
            scheduler.startGracefulShutdown().get(20, TimeUnit.SECONDS);
            Lines.print("stopped");
        } catch (Exception error) {
            Lines.print("stopped", "error", error.toString());
        }
    }
}
