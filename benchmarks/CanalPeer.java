import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import com.alibaba.otter.canal.common.zookeeper.running.ServerRunningListener;
import com.alibaba.otter.canal.common.zookeeper.running.ServerRunningMonitor;
import com.alibaba.otter.canal.common.zookeeper.running.ServerRunningMonitors;
import com.alibaba.otter.canal.instance.manager.CanalInstanceWithManager;
import com.alibaba.otter.canal.instance.manager.model.Canal;
import com.alibaba.otter.canal.instance.manager.model.CanalParameter;
import com.alibaba.otter.canal.instance.manager.model.CanalParameter.DataSourcing;
import com.alibaba.otter.canal.instance.manager.model.CanalParameter.IndexMode;
import com.alibaba.otter.canal.instance.manager.model.CanalParameter.SourcingType;
import com.alibaba.otter.canal.server.embedded.CanalServerWithEmbedded;
import com.alibaba.otter.canal.server.netty.CanalServerWithNetty;
import com.alibaba.otter.canal.sink.entry.EntryEventSink;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.LoggerFactory;

/**
 * canal's own server, for the benchmark. An instance of it reads a group of servers into one ring in memory.
 *
 * <p>Arguments: the port to listen on; destinations, separated by commas; the pattern of tables; user, whose password
 * is in MYSQL_PWD; the binlog file from whose beginning every server is read; the port of each server. A destination's
 * instance starts at its first subscription.
 *
 * <p>What is not set here has canal's default. As in the group instance that canal ships, positions are kept in memory,
 * and transactions leave in the order of their arrival: they are not merged by time. As in its server, rows are parsed in
 * parallel, and entries are serialized before they are asked for.
 */
final class CanalPeer {
    private static final String HOST = "127.0.0.1";
    private static final int FIRST_EVENT = 4;
    private static final int SERVERS_FROM = 5;
    /**
     * Far from the ids of servers. Each destination of each process has its own: a server ends the dump of a replica
     * whose id another one brings, which canal tries again only after ten seconds or more.
     */
    private static final long REPLICA_IDS_FROM = 2_000_000_000L;
    private static final int DESTINATIONS_MAX = 10;

    private CanalPeer() {}

    public static void main(String[] arguments) {
        ((Logger) LoggerFactory.getLogger(Logger.ROOT_LOGGER_NAME)).setLevel(Level.WARN);
        CanalServerWithEmbedded instances = CanalServerWithEmbedded.instance();
        int port = Integer.parseInt(arguments[0]);
        long firstId = REPLICA_IDS_FROM + (long) port * DESTINATIONS_MAX;
        Map<String, Canal> described = new HashMap<>();
        Map<String, ServerRunningMonitor> monitors = new HashMap<>();
        for (String destination : arguments[1].split(",")) {
            described.put(destination, describe(destination, firstId + described.size(), arguments));
            ServerRunningMonitor monitor = new ServerRunningMonitor();
            monitor.setDestination(destination);
            monitor.setListener(new Switch(instances, destination));
            monitors.put(destination, monitor);
        }
        ServerRunningMonitors.setRunningMonitors(monitors);
        instances.setCanalInstanceGenerator(name -> new Group(described.get(name), arguments[2]));
        instances.start();

        CanalServerWithNetty listener = CanalServerWithNetty.instance();
        listener.setIp(HOST);
        listener.setPort(port);
        listener.start();
    }

    private static Canal describe(String destination, long replicaId, String[] arguments) {
        List<DataSourcing> servers = new ArrayList<>();
        for (int at = SERVERS_FROM; at < arguments.length; at++) {
            InetSocketAddress address = new InetSocketAddress(HOST, Integer.parseInt(arguments[at]));
            servers.add(new DataSourcing(SourcingType.MYSQL, address));
        }
        CanalParameter parameter = new CanalParameter();
        parameter.setIndexMode(IndexMode.MEMORY);
        parameter.setMemoryStorageRawEntry(true);
        parameter.setParallel(true);
        parameter.setDetectingEnable(false);
        parameter.setTsdbEnable(false);
        parameter.setGroupDbAddresses(List.of(servers));
        parameter.setDbUsername(arguments[3]);
        parameter.setDbPassword(System.getenv("MYSQL_PWD"));
        parameter.setDefaultDatabaseName("");
        parameter.setSlaveId(replicaId);
        parameter.setPositions(
            List.of("{\"journalName\":\"%s\",\"position\":%d}".formatted(arguments[4], FIRST_EVENT)));
        Canal canal = new Canal();
        canal.setId(replicaId);
        canal.setName(destination);
        canal.setCanalParameter(parameter);
        return canal;
    }

    /** An instance that passes transactions on as they arrive. */
    private static final class Group extends CanalInstanceWithManager {
        Group(Canal canal, String tables) {
            super(canal, tables);
        }

        @Override
        protected void initEventSink() {
            EntryEventSink sink = new EntryEventSink();
            sink.setFilterTransactionEntry(false);
            sink.setEventStore(getEventStore());
            eventSink = sink;
        }
    }

    /** Starts a destination's instance. */
    private record Switch(CanalServerWithEmbedded instances, String destination) implements ServerRunningListener {
        @Override
        public void processStart() {}

        @Override
        public void processStop() {}

        @Override
        public void processActiveEnter() {
            instances.start(destination);
        }

        @Override
        public void processActiveExit() {
            instances.stop(destination);
        }
    }
}
