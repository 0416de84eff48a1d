"""What operators read: settings that differ, and health in sentences."""
