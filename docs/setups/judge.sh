# Start an endpoint that gives one opinion.
cat > chat.py << 'END'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

OPINION = {"is_regressive": False, "no_progress": True, "is_external": False, "reasoning": "No."}


class Chat(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": json.dumps(OPINION)}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"choices": [{"message": message}]}).encode())

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", 8000), Chat).serve_forever()
END
cp -r examples/traces .
python chat.py &
until curl -s http://127.0.0.1:8000/ > answer.txt; do sleep 0.1; done
