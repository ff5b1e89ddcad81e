import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.WebSocket;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;

/**
 * Pays over Java's own client as it comes: it offers HTTP/2 with each first request (Upgrade: h2c), the one with a body too.
 * Arguments: the node's URL, sender, recipient, value, patience in seconds. Prints the hash of the transaction.
 */
class Pay {
    static final HttpClient client = HttpClient.newHttpClient();

    static HttpResponse<String> send(HttpRequest.Builder request) throws Exception {
        return client.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    static void check(boolean isTrue, Object what) {
        if (!isTrue) {
            throw new AssertionError(what);
        }
    }

    static HttpRequest.Builder post(String url, String body) {
        return HttpRequest.newBuilder(URI.create(url))
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(body));
    }

    static String find(String name, String json) {
        var found = Pattern.compile("\"" + name + "\":\\s*\"([^\"]*)\"").matcher(json);
        check(found.find(), json);
        return found.group(1);
    }

    /** Whole messages, in their order. */
    static class Listener implements WebSocket.Listener {
        final BlockingQueue<String> messages = new LinkedBlockingQueue<>();
        private final StringBuilder message = new StringBuilder();

        @Override
        public CompletionStage<?> onText(WebSocket socket, CharSequence text, boolean last) {
            message.append(text);
            if (last) {
                messages.add(message.toString());
                message.setLength(0);
            }
            return WebSocket.Listener.super.onText(socket, text, last);
        }

        String next(long patience) throws InterruptedException {
            String next = messages.poll(patience, TimeUnit.SECONDS);
            check(next != null, "nothing came over the socket");
            return next;
        }
    }

    public static void main(String[] args) throws Exception {
        String url = args[0];
        long patience = Long.parseLong(args[4]);
        String payment = """
                {"from": "%s", "to": "%s", "value": %s, "gas": 21000}""".formatted(args[1], args[2], args[3]);

        var listener = new Listener();
        var socket = client.newWebSocketBuilder()
                .buildAsync(URI.create(url.replaceFirst("http", "ws") + "/rpc"), listener).join();
        socket.sendText("""
                {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newPendingTransactions"]}""", true).join();
        String subscription = find("result", listener.next(patience));

        // The first request of this connection has a body and offers another protocol at once.
        var sent = send(post(url + "/tx", payment));
        check(sent.statusCode() == 200, sent.statusCode() + sent.body());
        String hash = find("txHash", sent.body());
        String told = listener.next(patience);
        check(find("subscription", told).equals(subscription) && find("result", told).equals(hash), told);
        socket.sendClose(WebSocket.NORMAL_CLOSURE, "").join();

        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(patience);
        while (true) {
            var found = send(HttpRequest.newBuilder(URI.create(url + "/tx/" + hash)));
            check(found.statusCode() == 200, found.body());
            if (find("status", found.body()).equals("confirmed")) {
                break;
            }
            check(System.nanoTime() < deadline, "it is not confirmed: " + found.body());
            Thread.sleep(50);
        }
        var refused = send(post(url + "/tx", "{}"));
        check(refused.statusCode() == 400, refused.statusCode());
        System.out.println(hash);
    }
}
