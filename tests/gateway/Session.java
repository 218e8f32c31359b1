import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;

/** What a user of Flink's JDBC driver does, printed so that it can be compared. */
public class Session {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            System.out.println(connection.getCatalog() + " " + connection.getSchema());
            statements(connection);
            metadata(connection);
            cancel(connection);
        }
    }

    static void statements(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            run(statement, "CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '5',"
                + " 'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '5')");
            run(statement, "CREATE TABLE hole (a INT) WITH ('connector' = 'blackhole')");
            run(statement, "CREATE TABLE endless (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10')");
            run(statement, "CREATE TABLE slow (a INT) WITH ('connector' = 'datagen', 'fields.a.kind' = 'sequence',"
                + " 'fields.a.start' = '1', 'fields.a.end' = '1000000', 'rows-per-second' = '10')");
            run(statement, "SELECT a FROM t");
            run(statement, "SELECT COUNT(*) AS n FROM t");
            run(statement, "INSERT INTO hole SELECT a FROM t");
            run(statement, "INSERT INTO hole SELECT a FROM endless");
            run(statement, "SHOW JOBS");
            run(statement, "EXECUTE STATEMENT SET BEGIN INSERT INTO hole SELECT 1; INSERT INTO hole SELECT 2; END;");
            run(statement, "SET 'execution.runtime-mode' = 'batch'");
            run(statement, "SELECT COUNT(*) AS n FROM t");
            run(statement, "RESET 'execution.runtime-mode'");
            run(statement, "SELECT CAST(1 AS TINYINT) a, CAST(2 AS SMALLINT) b, 3 c, CAST(4 AS BIGINT) d,"
                + " CAST(1.5 AS FLOAT) e, CAST(2.5 AS DOUBLE) f, CAST(1.50 AS DECIMAL(10, 2)) g, 'x' h,"
                + " CAST('y' AS STRING) i, TRUE j, DATE '2020-01-02' k, TIME '03:04:05' l,"
                + " TIMESTAMP '2020-01-02 03:04:05.678' m, X'4142' n, CAST(X'4142' AS BYTES) o, CAST(NULL AS INT) p");
            run(statement, "SELECT MAP['k', 1] AS m");
            run(statement, "SELECT a FROM");
            run(statement, "SELECT nothing FROM t");
            run(statement, "SELECT 1 / 0");
            run(statement, "DROP TABLE t");
        }
    }

    static void metadata(Connection connection) throws Exception {
        DatabaseMetaData about = connection.getMetaData();
        System.out.println(about.getDatabaseProductName() + " " + about.getDatabaseProductVersion());
        try (ResultSet rows = about.getCatalogs()) {
            while (rows.next()) System.out.println("catalog " + rows.getString(1));
        }
        try (ResultSet rows = about.getSchemas()) {
            while (rows.next()) System.out.println("schema " + rows.getString(1) + " of " + rows.getString(2));
        }
        connection.setCatalog("default_catalog");
        connection.setSchema("default_database");
        connection.setClientInfo("table.local-time-zone", "Europe/Berlin");
        System.out.println(connection.getClientInfo("table.local-time-zone"));
    }

    static void cancel(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT a FROM slow")) {
            for (int i = 0; i < 3; i++) {
                rows.next();
                System.out.println("slow " + rows.getInt(1));
            }
            statement.cancel();
        }
    }

    static void run(Statement statement, String sql) {
        System.out.println("> " + sql);
        try {
            if (!statement.execute(sql)) {
                System.out.println(statement.getUpdateCount());
                return;
            }
            try (ResultSet rows = statement.getResultSet()) {
                print(rows);
            }
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null) cause = cause.getCause();
            System.out.println(error.getMessage() + "\n" + cause.getMessage());
        }
    }

    static void print(ResultSet rows) throws SQLException {
        ResultSetMetaData about = rows.getMetaData();
        for (int i = 1; i <= about.getColumnCount(); i++) {
            System.out.print(about.getColumnName(i) + " " + about.getColumnTypeName(i) + " | ");
        }
        System.out.println();
        while (rows.next()) {
            for (int i = 1; i <= about.getColumnCount(); i++) {
                Object value = rows.getObject(i);
                System.out.print((value instanceof byte[] ? new String((byte[]) value) : value) + " | ");
            }
            System.out.println();
        }
    }
}
