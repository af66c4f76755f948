import crawlercommons.robots.BaseRobotRules;
import crawlercommons.robots.SimpleRobotRulesParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.List;

/** Answers lines of agent, URL and base64 of a robots.txt with whether the agent may fetch the URL. */
public class RobotsReferee {
    public static void main(String[] arguments) throws Exception {
        SimpleRobotRulesParser parser = new SimpleRobotRulesParser(1L << 60, 1 << 30);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] parts = line.split(" ", -1);
            byte[] text = Base64.getDecoder().decode(parts[2]);
            BaseRobotRules rules =
                parser.parseContent("http://a.example/robots.txt", text, "text/plain", List.of(parts[0]));
            System.out.println(rules.isAllowed(parts[1]) ? 1 : 0);
        }
    }
}
