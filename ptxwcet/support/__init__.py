"""Source spans, diagnostics and graph algorithms; knows neither PTX nor GPUs."""
