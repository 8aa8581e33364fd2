import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.stream.IntStream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Asks a site over TLS with java.net.http, and prints what it gets. */
class Client {
    public static void main(String[] words) throws Exception {
        var client = HttpClient.newBuilder().sslContext(trusting(words[1])).proxy(HttpClient.Builder.NO_PROXY).build();
        for (var path : new String[] {"/stored", "/new"}) {
            var response = client.send(to(words[0] + path).build(), BodyHandlers.ofString());
            var hit = response.headers().firstValue("Cache-Status").orElse("").contains("; hit");
            System.out.println(path + " " + response.version() + " " + response.statusCode() + " " + response.body() + " " + hit);
        }
        var content = BodyPublishers.ofByteArray(new byte[1_000_000]);
        var posted = client.send(to(words[0] + "/posted").POST(content).build(), BodyHandlers.ofString());
        System.out.println("posted: " + posted.body());
        // It has no way to see trailers.
        var page = client.send(to(words[0] + "/trailers").build(), BodyHandlers.ofString());
        System.out.println("trailers: " + page.body());
        var paths = IntStream.range(0, 100).mapToObj(number -> "/together/" + number).toList();
        var responses = paths.stream()
            .map(path -> client.sendAsync(to(words[0] + path).build(), BodyHandlers.ofString())).toList();
        var texts = responses.stream().map(response -> response.join()).map(HttpResponse::body).toList();
        System.out.println("together: " + texts.equals(paths));
    }

    static HttpRequest.Builder to(String url) {
        return HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(20));
    }

    static SSLContext trusting(String pem) throws Exception {
        var keys = KeyStore.getInstance(KeyStore.getDefaultType());
        keys.load(null, null);
        try (var file = new FileInputStream(pem)) {
            keys.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(keys);
        var context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }
}
