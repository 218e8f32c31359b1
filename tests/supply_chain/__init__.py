"""Where our libraries come from, and under which licences."""
