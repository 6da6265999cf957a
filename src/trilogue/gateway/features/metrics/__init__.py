"""Metrics: what the gateway counts, how workers add up their counts, and the text that Prometheus reads.

`families` is the list of all metrics. Other parts of the gateway add theirs with a row there and
`WorkerMetrics.register`.
"""
