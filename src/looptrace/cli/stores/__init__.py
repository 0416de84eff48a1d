"""The commands that copy, restore and erase stores."""
