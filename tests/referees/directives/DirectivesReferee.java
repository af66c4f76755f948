import com.norconex.collector.http.robot.RobotsMeta;
import com.norconex.collector.http.robot.impl.StandardRobotsMetaProvider;
import com.norconex.commons.lang.file.ContentType;
import com.norconex.commons.lang.map.Properties;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.stream.Collectors;
import org.jsoup.Jsoup;

/**
 * Answers lines of base64 of an X-Robots-Tag and of a page with two words: whether Norconex finds
 * noindex and nofollow in them ("10"), and name and content of each meta that jsoup finds in the page.
 */
public class DirectivesReferee {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] parts = line.split(" ", -1);
            System.out.println(verdict(decoded(parts[0]), decoded(parts[1])) + " " + metas(decoded(parts[1])));
        }
    }

    private static String verdict(String header, String page) throws Exception {
        Properties headers = new Properties(true);
        if (!header.isEmpty()) {
            headers.put("X-Robots-Tag", List.of(header));
        }
        RobotsMeta found = new StandardRobotsMetaProvider()
            .getRobotsMeta(new StringReader(page), "http://a.example/", ContentType.HTML, headers);
        return found == null ? "00" : (found.isNoindex() ? "1" : "0") + (found.isNofollow() ? "1" : "0");
    }

    private static String metas(String page) {
        return Jsoup.parse(page).select("meta[name]").stream()
            .filter(meta -> meta.closest("template") == null)
            .map(meta -> encoded(meta.attr("name")) + ":" + encoded(meta.attr("content")))
            .collect(Collectors.joining(","));
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
