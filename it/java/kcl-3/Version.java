import software.amazon.kinesis.coordinator.CoordinatorConfig;
import software.amazon.kinesis.coordinator.CoordinatorConfig.ClientVersionConfig;
import software.amazon.kinesis.leases.LeaseManagementConfig;

/** What is set in KCL 3.x alone. */
final class Version {
    static CoordinatorConfig configure(CoordinatorConfig config) {
        return config.clientVersionConfig(ClientVersionConfig.valueOf(System.getProperty("clientVersion")));
    }

    static LeaseManagementConfig configure(LeaseManagementConfig config) {
        // Measuring the machine would ask for the metadata of EC2.
        config.workerUtilizationAwareAssignmentConfig().disableWorkerMetrics(true);
        return config;
    }
}
