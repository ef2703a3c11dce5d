import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import software.amazon.kinesis.retrieval.AggregatorUtil;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/**
 * Takes records apart as the KCL does. A line of stdin has a sequence number, the key and the data in base 64, and the
 * first and last hash key of the shard; a line of stdout, for each event, its sequence and sub-sequence number, its key
 * and its data in base 64, and its explicit hash key. Tabs are between.
 */
public final class Deaggregate {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            KinesisClientRecord record = KinesisClientRecord.builder()
                    .sequenceNumber(fields[0])
                    .partitionKey(new String(Base64.getDecoder().decode(fields[1]), StandardCharsets.UTF_8))
                    .data(ByteBuffer.wrap(Base64.getDecoder().decode(fields[2])))
                    .build();
            BigInteger first = new BigInteger(fields[3]);
            BigInteger last = new BigInteger(fields[4]);
            for (KinesisClientRecord user : new AggregatorUtil().deaggregate(List.of(record), first, last)) {
                print(out, user);
            }
        }
        out.flush();
    }

    private static void print(PrintStream out, KinesisClientRecord user) {
        byte[] data = new byte[user.data().remaining()];
        user.data().duplicate().get(data);
        String sub = user.aggregated() ? String.valueOf(user.subSequenceNumber()) : "";
        String key = base64(user.partitionKey().getBytes(StandardCharsets.UTF_8));
        String hashKey = user.explicitHashKey() == null ? "" : user.explicitHashKey();
        out.println(String.join("\t", user.sequenceNumber(), sub, key, base64(data), hashKey));
    }

    private static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
