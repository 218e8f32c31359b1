import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.regex.*;

/** Lines "pattern TAB text", both as hexadecimal UTF-16, to lines "true", "false" or "error": Java's `find`. */
public class JavaFind {
    static String decode(String hex) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < hex.length(); i += 4) text.append((char) Integer.parseInt(hex.substring(i, i + 4), 16));
        return text.toString();
    }

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split("\t", -1);
            try {
                out.append(Pattern.compile(decode(parts[0])).matcher(decode(parts[1])).find());
            } catch (PatternSyntaxException e) {
                out.append("error");
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
