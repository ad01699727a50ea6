"""sizes of published weights → models: families whose layouts differ from the other models here."""
