"""Start a person who decides on the gate of the agent."""

agent = Agent()


def person():
    while not gate.check().open:
        time.sleep(0.01)
    gate.resolve("continue", "Migration 41 added the column; mark 42 as applied.")


threading.Thread(target=person, daemon=True).start()
