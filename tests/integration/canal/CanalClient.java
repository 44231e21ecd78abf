import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import com.alibaba.otter.canal.client.CanalConnector;
import com.alibaba.otter.canal.client.CanalConnectors;
import com.alibaba.otter.canal.client.impl.SimpleCanalConnector;
import com.alibaba.otter.canal.protocol.CanalEntry.Entry;
import com.alibaba.otter.canal.protocol.CanalEntry.RowChange;
import com.alibaba.otter.canal.protocol.CanalEntry.TransactionBegin;
import com.alibaba.otter.canal.protocol.CanalEntry.TransactionEnd;
import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.MessageOrBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.slf4j.LoggerFactory;

/**
 * canal's Java client, unchanged, in a process of its own.
 *
 * <p>Reads commands as JSON lines, [method, arguments], and answers each with a JSON line, {"value": ...} or {"error": ...}.
 * Methods, arguments and entries are those of canal_python.py, so that one test can drive either client.
 */
final class CanalClient {
    private static final TimeUnit[] UNITS = TimeUnit.values();
    private CanalConnector connector;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // The client's logger writes to standard output.
        ((Logger) LoggerFactory.getLogger(Logger.ROOT_LOGGER_NAME)).setLevel(Level.WARN);
        CanalClient client = new CanalClient();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONArray command = JSON.parseArray(line);
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("value", client.call(command.getString(0), command.getJSONObject(1)));
            } catch (Exception error) {
                answer.put("error", sentences(error));
            }
            answers.println(JSON.toJSONString(answer, JSONWriter.Feature.WriteMapNullValue));
        }
        System.exit(0); // The threads of its ZooKeeper client are no daemons.
    }

    private Object call(String method, JSONObject said) throws Exception {
        switch (method) {
            case "connect_to":
                connector = CanalConnectors.newSingleConnector(
                        new InetSocketAddress(said.getString("host"), said.getIntValue("port")),
                        said.getString("destination"), said.getString("username"), said.getString("password"));
                ((SimpleCanalConnector) connector).setLazyParseEntry(said.getBooleanValue("lazy"));
                connector.connect();
                return null;
            case "connect_by_zookeeper":
                connector = CanalConnectors.newClusterConnector(
                        said.getString("hosts"), said.getString("destination"), said.getString("username"),
                        said.getString("password"));
                connector.connect();
                return null;
            case "connect":
                connector.connect();
                return null;
            case "subscribe":
                connector.subscribe(said.getString("filter"));
                return null;
            case "unsubscribe":
                connector.unsubscribe();
                return null;
            case "get":
                return message(connector.get(said.getIntValue("size")));
            case "get_without_ack":
                return message(said.containsKey("timeout")
                        ? connector.getWithoutAck(
                                said.getIntValue("batch_size"), said.getLong("timeout"), UNITS[said.getIntValue("unit")])
                        : connector.getWithoutAck(said.getIntValue("batch_size")));
            case "ack":
                connector.ack(said.getLongValue("message_id"));
                return null;
            case "rollback":
                if (said.containsKey("batch_id")) {
                    connector.rollback(said.getLongValue("batch_id"));
                } else {
                    connector.rollback();
                }
                return null;
            case "check_valid":
                return connector.checkValid();
            case "disconnect":
                connector.disconnect();
                return null;
            default:
                throw new IllegalArgumentException("no such method: " + method);
        }
    }

    private static String sentences(Throwable error) {
        return error.getCause() == null ? error.toString() : error + ", " + sentences(error.getCause());
    }

    private static Map<String, Object> message(com.alibaba.otter.canal.protocol.Message message) throws Exception {
        List<Object> entries = new ArrayList<>();
        if (message.isRaw()) {
            for (Object bytes : message.getRawEntries()) {
                entries.add(entry(Entry.parseFrom((ByteString) bytes)));
            }
        } else {
            for (Entry each : message.getEntries()) {
                entries.add(entry(each));
            }
        }
        return Map.of("id", message.getId(), "raw", message.isRaw(), "entries", entries);
    }

    private static Map<String, Object> entry(Entry entry) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("type", entry.getEntryType().name());
        found.put("header", fields(entry.getHeader()));
        found.put("stored", fields(stored(entry)));
        return found;
    }

    private static MessageOrBuilder stored(Entry entry) throws Exception {
        switch (entry.getEntryType()) {
            case TRANSACTIONBEGIN:
                return TransactionBegin.parseFrom(entry.getStoreValue());
            case TRANSACTIONEND:
                return TransactionEnd.parseFrom(entry.getStoreValue());
            default:
                return RowChange.parseFrom(entry.getStoreValue());
        }
    }

    /** Every field of a message by name, defaults included. */
    private static Map<String, Object> fields(MessageOrBuilder message) {
        Map<String, Object> found = new LinkedHashMap<>();
        for (FieldDescriptor field : message.getDescriptorForType().getFields()) {
            found.put(field.getName(), plain(message.getField(field)));
        }
        return found;
    }

    private static Object plain(Object value) {
        if (value instanceof EnumValueDescriptor) {
            return ((EnumValueDescriptor) value).getNumber();
        }
        if (value instanceof MessageOrBuilder) {
            return fields((MessageOrBuilder) value);
        }
        if (value instanceof List) {
            List<Object> found = new ArrayList<>();
            for (Object each : (List<?>) value) {
                found.add(plain(each));
            }
            return found;
        }
        return value;
    }
}
