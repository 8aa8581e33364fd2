-- Prints wrk's counters as they are: its own report rounds them.
function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format("counted %d %d %d %d %d %d\n", summary.requests, summary.bytes, summary.duration,
        errors.connect + errors.read + errors.write + errors.status, latency:percentile(50), latency:percentile(99)))
end
