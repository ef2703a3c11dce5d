import java.net.URI;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.awscore.client.builder.AwsClientBuilder;
import software.amazon.awssdk.core.interceptor.Context;
import software.amazon.awssdk.core.interceptor.ExecutionAttributes;
import software.amazon.awssdk.core.interceptor.ExecutionInterceptor;
import software.amazon.awssdk.core.interceptor.SdkExecutionAttribute;
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
import software.amazon.kinesis.retrieval.RetrievalSpecificConfig;
import software.amazon.kinesis.retrieval.fanout.FanOutConfig;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * A KCL worker that prints a JSON line for each record and for what happens to its shards, in the words of the probe.
 * It stops in good order at SIGTERM. Its settings are system properties.
 */
public final class Reader {
    private static final String STREAM = System.getProperty("stream");
    private static final String KINESIS = System.getProperty("kinesis");
    private static final String DYNAMODB = System.getProperty("dynamodb");
    /** Reads by subscriptions, over HTTP/2, instead of by polling over HTTP/1.1. */
    private static final boolean FAN_OUT = Boolean.getBoolean("fanOut");

    public static void main(String[] arguments) throws Exception {
        KinesisAsyncClient kinesis = client(KinesisAsyncClient.builder(), KINESIS)
                .httpClientBuilder(NettyNioAsyncHttpClient.builder()
                        .protocol(FAN_OUT ? Protocol.HTTP2 : Protocol.HTTP1_1)
                        .maxConcurrency(100))
                .overrideConfiguration(config -> config.addExecutionInterceptor(new Speech()))
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
                configs.retrievalConfig().retrievalSpecificConfig(FAN_OUT ? fanOut(kinesis) : polling(kinesis)));
    }

    private static RetrievalSpecificConfig polling(KinesisAsyncClient kinesis) {
        PollingConfig polling = new PollingConfig(STREAM, kinesis).idleTimeBetweenReadsInMillis(250);
        polling.usePollingConfigIdleTimeValue(true);
        return polling;
    }

    private static RetrievalSpecificConfig fanOut(KinesisAsyncClient kinesis) {
        return new FanOutConfig(kinesis).streamName(STREAM).applicationName(System.getProperty("table"));
    }

    /** Prints in which form each operation is called. */
    private static final class Speech implements ExecutionInterceptor {
        private final Set<String> told = ConcurrentHashMap.newKeySet();

        @Override
        public void beforeTransmission(Context.BeforeTransmission context, ExecutionAttributes attributes) {
            String operation = attributes.getAttribute(SdkExecutionAttribute.OPERATION_NAME);
            if (told.add(operation)) {
                String form = context.httpRequest().firstMatchingHeader("Content-Type").orElse("");
                Lines.print("calls", "operation", operation, "form", form);
            }
        }
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
