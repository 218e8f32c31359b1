import java.sql.Connection;
import java.sql.DriverManager;

/** Connects, which asks the server for the names of catalog and schema. */
public class Token {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            System.out.println(connection.getCatalog() + " " + connection.getSchema());
        }
    }
}
