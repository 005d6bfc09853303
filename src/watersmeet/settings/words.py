"""Words that several settings share."""

AUTO, OFF = "auto", "off"
