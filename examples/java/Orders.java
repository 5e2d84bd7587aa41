// A queue, a sender and a worker with JDBC: DATABASE_URL=postgres://... java -cp postgresql.jar Orders.java
// The schema is installed by `fencepost init`.

import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;

public final class Orders {
    static final String QUEUE = "orders", CONSUMER = "billing", WORKER = "java";

    record Slot(int number, long epoch) {}

    record Message(long batch, long id, String what, int attempt) {}

    interface Read<T> {
        T of(ResultSet row) throws SQLException;
    }

    interface Work {
        void run() throws SQLException;
    }

    /** Whether somebody else owns the slot or the lease by now. */
    static boolean isFenced(SQLException error) {
        return "ZF001".equals(error.getSQLState());
    }

    /** Within the caller's transaction: the message is there when that commits. */
    static void send(Connection db, String what, String key) throws SQLException {
        call(db, "SELECT fencepost.send(?, ?::text, key => ?)", QUEUE, what, key);
    }

    /** Claims a slot, handles what waits in it, and gives it back. Returns how many messages were acked. */
    static int work(Connection db) throws SQLException {
        var claim = "SELECT slot, epoch FROM fencepost.claim(?, ?, ?, ttl => '30 s')";
        var granted = query(db, row -> new Slot(row.getInt("slot"), row.getLong("epoch")), claim, QUEUE, CONSUMER, WORKER);
        if (granted.isEmpty()) {
            return 0; // Every slot has an owner.
        }
        var slot = granted.get(0);
        int acked = 0;
        try {
            for (var batch = receive(db, slot); !batch.isEmpty(); batch = receive(db, slot)) {
                acked += handle(db, slot, batch);
            }
            call(db, "SELECT fencepost.release_slot(?, ?, ?, ?)", QUEUE, CONSUMER, slot.number(), slot.epoch());
        } catch (SQLException error) {
            // Fenced: whatever this worker had begun is undone; its heir gets the batch.
            if (!isFenced(error)) {
                throw error;
            }
        }
        return acked;
    }

    static List<Message> receive(Connection db, Slot slot) throws SQLException {
        return query(
            db,
            row -> new Message(row.getLong("batch_id"), row.getLong("id"), row.getString("what"), row.getInt("attempt")),
            "SELECT *, fencepost.payload_text(m) AS what FROM fencepost.receive(?, ?, ?, ?, max => 100) m",
            QUEUE, CONSUMER, slot.number(), slot.epoch());
    }

    /** Effects and ack in one transaction. One that takes longer than a third of the TTL calls `renew_slot` meanwhile, elsewhere. */
    static int handle(Connection db, Slot slot, List<Message> batch) throws SQLException {
        long batchId = batch.get(0).batch();
        Set<Long> withdrawn = new HashSet<>();
        List<Message> good = new ArrayList<>();
        for (var message : batch) {
            if (withdrawn.contains(message.id())) {
                continue; // Behind one of its key that failed.
            }
            if (message.what().equals("declined") && message.attempt() == 1) {
                var nack = "SELECT withdrawn FROM fencepost.nack(?, ?, ?, ?, ?, ?, retry_after => '0 s', reason => 'no funds')";
                Read<Long[]> ids = row -> (Long[]) row.getArray("withdrawn").getArray();
                var failed = query(db, ids, nack, QUEUE, CONSUMER, slot.number(), slot.epoch(), batchId, message.id());
                withdrawn.addAll(Arrays.asList(failed.get(0)));
            } else {
                good.add(message);
            }
        }
        transaction(db, () -> {
            for (var message : good) {
                update(db, "INSERT INTO bill VALUES (?, ?)", message.id(), message.what());
            }
            call(db, "SELECT fencepost.ack(?, ?, ?, ?, ?)", QUEUE, CONSUMER, slot.number(), slot.epoch(), batchId);
        });
        return good.size();
    }

    /** A write that counts only under a lease. */
    static void report(Connection db) throws SQLException {
        var acquire = "SELECT epoch FROM fencepost.lease_acquire('nightly', ?, '30 s') WHERE granted";
        var granted = query(db, row -> row.getLong("epoch"), acquire, WORKER);
        if (granted.isEmpty()) {
            return;
        }
        long epoch = granted.get(0);
        transaction(db, () -> {
            call(db, "SELECT fencepost.lease_guard('nightly', ?)", epoch);
            update(db, "INSERT INTO bill VALUES (0, 'nightly report')");
        });
        call(db, "SELECT fencepost.lease_release('nightly', ?)", epoch);
        // Who presents the epoch of an owner before is refused, and its transaction with it.
        try {
            transaction(db, () -> {
                update(db, "INSERT INTO bill VALUES (-1, 'never')");
                call(db, "SELECT fencepost.lease_guard('nightly', ?)", epoch - 1);
            });
            throw new AssertionError("a late owner is fenced");
        } catch (SQLException error) {
            if (!isFenced(error)) {
                throw error;
            }
        }
    }

    public static void main(String[] args) throws SQLException {
        // Every call is a transaction of its own, but for those within `transaction`.
        try (var db = connect(System.getenv("DATABASE_URL"))) {
            call(db, "SELECT fencepost.create_queue(?, partitions => 4)", QUEUE);
            call(db, "SELECT fencepost.create_consumer(?, ?, on_failure => 'pause', backoff => '10 ms')", QUEUE, CONSUMER);
            update(db, "CREATE TABLE IF NOT EXISTS bill (message_id bigint PRIMARY KEY, what text NOT NULL)");
            transaction(db, () -> {
                send(db, "paid", "customer-7");
                send(db, "declined", "customer-7");
            });
            System.out.println("acked " + work(db));
            call(db, "SELECT fencepost.maintain(?)", QUEUE);
            report(db);
            query(db, row -> row.getString("what"), "SELECT what FROM bill ORDER BY message_id").forEach(System.out::println);
        }
    }

    /** JDBC takes the user and the password beside the URL. */
    static Connection connect(String url) throws SQLException {
        var uri = URI.create(url);
        var user = uri.getUserInfo().split(":", 2);
        var properties = new Properties();
        properties.setProperty("user", user[0]);
        properties.setProperty("password", user.length > 1 ? user[1] : "");
        return DriverManager.getConnection("jdbc:postgresql://" + uri.getHost() + ":" + uri.getPort() + uri.getPath(), properties);
    }

    /** Runs `work` in one transaction. */
    static void transaction(Connection db, Work work) throws SQLException {
        db.setAutoCommit(false);
        try {
            work.run();
            db.commit();
        } catch (SQLException | RuntimeException error) {
            db.rollback();
            throw error;
        } finally {
            db.setAutoCommit(true);
        }
    }

    /** Calls a function whose answer is not needed. */
    static void call(Connection db, String function, Object... values) throws SQLException {
        query(db, row -> null, function, values);
    }

    static void update(Connection db, String change, Object... values) throws SQLException {
        try (var statement = prepare(db, change, values)) {
            statement.executeUpdate();
        }
    }

    static <T> List<T> query(Connection db, Read<T> read, String query, Object... values) throws SQLException {
        try (var statement = prepare(db, query, values); var rows = statement.executeQuery()) {
            List<T> found = new ArrayList<>();
            while (rows.next()) {
                found.add(read.of(rows));
            }
            return found;
        }
    }

    static PreparedStatement prepare(Connection db, String text, Object... values) throws SQLException {
        var statement = db.prepareStatement(text);
        for (int index = 0; index < values.length; index++) {
            statement.setObject(index + 1, values[index]);
        }
        return statement;
    }
}
