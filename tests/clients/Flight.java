import java.math.BigDecimal;
import java.sql.*;

/** What a program does with the Arrow Flight SQL JDBC driver. */
public class Flight {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0]);
                Statement statement = connection.createStatement()) {
            DatabaseMetaData about = connection.getMetaData();
            System.out.println(about.getDatabaseProductName() + " " + about.getIdentifierQuoteString());
            try (ResultSet tables = about.getTables(null, null, "item%", new String[] {"TABLE"})) {
                while (tables.next()) System.out.println(tables.getString("TABLE_NAME") + " " + tables.getString("TABLE_TYPE"));
            }
            try (ResultSet columns = about.getColumns(null, null, "items", null)) {
                while (columns.next()) System.out.println(columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME"));
            }
            try (ResultSet keys = about.getPrimaryKeys(null, null, "keyed")) {
                while (keys.next()) System.out.println(keys.getString("COLUMN_NAME"));
            }
            statement.execute("CREATE TABLE java_rows (id BIGINT, word STRING) WITH ('connector' = 'topic', 'topic' = 'java_rows', 'format' = 'json')");
            System.out.println(statement.executeUpdate("INSERT INTO java_rows VALUES (1, 'one'), (2, NULL)"));
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_rows VALUES (?, ?)")) {
                insert.setLong(1, 3);
                insert.setString(2, "it's");
                System.out.println(insert.executeUpdate());
            }
            try (PreparedStatement query = connection.prepareStatement("SELECT id, word FROM java_rows WHERE id >= ? ORDER BY id")) {
                query.setLong(1, 2);
                try (ResultSet rows = query.executeQuery()) {
                    while (rows.next()) System.out.println(rows.getLong(1) + " " + rows.getString(2));
                }
            }
            String types = "SELECT TRUE, CAST(1.5 AS DECIMAL(10, 2)), DATE '2026-01-02', TIMESTAMP '2026-01-02 03:04:05.678', 2.5E0, X'0a'";
            try (ResultSet rows = statement.executeQuery(types)) {
                rows.next();
                System.out.println(rows.getBoolean(1) + " " + rows.getBigDecimal(2) + " " + rows.getDate(3) + " " + rows.getTimestamp(4) + " " + rows.getDouble(5) + " " + rows.getBytes(6)[0]);
            }
            try {
                statement.executeQuery("SELECT nope FROM items");
            } catch (SQLException error) {
                System.out.println(error.getMessage().contains("unknown column 'nope'"));
            }
        }
    }
}
