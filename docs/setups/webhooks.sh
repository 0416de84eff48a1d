# Start a receiver, and write the settings that name it.
mkdir traces && cp examples/traces/nightly_migration_loop.jsonl traces/
export WEBHOOK_SECRET="whsec_$(openssl rand -base64 32)"
LOOPTRACE_WEBHOOK_SECRET=$WEBHOOK_SECRET python examples/webhook_receiver/receiver.py 8000 > received.txt 2>&1 &
cat > looptrace.toml << 'END'
[[webhooks]]
name = "on-call"
url = "http://127.0.0.1:8000/"
secrets = ["env:WEBHOOK_SECRET"]
allow_private = ["127.0.0.1"]
END
until curl -s http://127.0.0.1:8000/ > answer.txt; do sleep 0.1; done
