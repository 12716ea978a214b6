"""A shop whose chatbot's sessions have timers: the endpoints that Reveille calls, and the shop's own chat.

    reveille --config examples/chatbot/reveille.toml &
    python examples/chatbot/shop.py

The shop runs its chatbot itself and reports each message and each answer. After 5 minutes of silence the customer is
reminded, after 10 a person is asked to take over, after 30 the conversation is closed: all by the configuration.
"""

import json
import os
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REVEILLE = os.environ.get("REVEILLE_URL", "http://127.0.0.1:7383")
SESSION = "customer-42"


class Shop(BaseHTTPRequestHandler):
    """POST /sessions/{session}/handoff and /close. The same key is the same call, made again."""

    done = set()

    def do_POST(self):
        arguments = json.loads(self.rfile.read(int(self.headers["content-length"])) or "{}")
        key = self.headers["idempotency-key"]
        if key not in self.done:
            self.done.add(key)
            print(f"{self.path} {arguments} (by {self.headers['x-reveille-timer']})", flush=True)
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def report(phase, text):
    body = {"agent": "shop:support", "phase": phase, "text": text}
    data = json.dumps(body).encode()
    urllib.request.urlopen(urllib.request.Request(f"{REVEILLE}/api/sessions/{SESSION}/activity", data)).close()


def pushed():
    """What Reveille says by itself, as it says it."""
    with urllib.request.urlopen(f"{REVEILLE}/api/events?session={SESSION}") as events:
        print("following", flush=True)
        for line in events:
            if line.startswith(b"data:"):
                entry = json.loads(line[5:])
                if entry["event"] == "session_timer.triggered" and entry["data"].get("message"):
                    print(f"to the customer: {entry['data']['message']['text']}", flush=True)


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    server = ThreadingHTTPServer(("127.0.0.1", port), Shop)
    print(f"the shop is open on port {server.server_port}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=pushed, daemon=True).start()
    # Every line is a customer's message; the chatbot of this shop is of few words.
    for line in sys.stdin:
        report("message", line.strip())
        answer = "Your parcel left the depot this morning 📦"
        print(f"the chatbot: {answer}", flush=True)
        report("response", answer)


main()
