import software.amazon.kinesis.coordinator.CoordinatorConfig;
import software.amazon.kinesis.leases.LeaseManagementConfig;

/** What is set in KCL 2.x alone: nothing. */
final class Version {
    static CoordinatorConfig configure(CoordinatorConfig config) {
        return config;
    }

    static LeaseManagementConfig configure(LeaseManagementConfig config) {
        return config;
    }
}
