# Start a server, and send it the spans of an example.
looptrace serve --store served/
while read -r line; do
    curl -s -o sent.json -H 'Content-Type: application/json' --data-binary "$line" http://127.0.0.1:4318/v1/traces
done < examples/traces/nightly_migration_loop.jsonl
until looptrace gates list --server http://127.0.0.1:4318 | grep "agent ended" > list.txt; do sleep 0.1; done
