"""Reading: raw sentences from any common source, scored pairs and paraphrases. Nothing here knows about models."""
