/** JSON lines on stdout, each whole. */
final class Lines {
    /** Prints what happened, with fields as name, value, name, value. */
    static void print(String event, Object... fields) {
        StringBuilder line = new StringBuilder("{\"event\":\"").append(event).append('"');
        for (int i = 0; i < fields.length; i += 2) {
            line.append(",\"").append(fields[i]).append("\":").append(json(fields[i + 1]));
        }
        synchronized (Lines.class) {
            System.out.println(line.append('}'));
        }
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        String escaped = value.toString().replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
        return '"' + escaped + '"';
    }
}
