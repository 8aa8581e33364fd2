CREATE TABLE IF NOT EXISTS transactions (
    id {serial},
    time BIGINT NOT NULL,
    instance VARCHAR(64) NOT NULL,
    door VARCHAR(32) NOT NULL,
    site VARCHAR(255) NOT NULL,
    route VARCHAR(128) NOT NULL,
    method VARCHAR(32) NOT NULL,
    url TEXT NOT NULL,
    status BIGINT NOT NULL,
    outcome VARCHAR(32) NOT NULL,
    reason VARCHAR(128) NOT NULL,
    requests BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    service_us BIGINT NOT NULL,
    origin_us BIGINT,
    age BIGINT,
    tier VARCHAR(32) NOT NULL,
    client VARCHAR(128) NOT NULL,
    UNIQUE (time, id)
){storage};

CREATE TABLE IF NOT EXISTS hours (
    hour BIGINT NOT NULL,
    instance VARCHAR(64) NOT NULL,
    site VARCHAR(255) NOT NULL,
    route VARCHAR(128) NOT NULL,
    door VARCHAR(32) NOT NULL,
    outcome VARCHAR(32) NOT NULL,
    status BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    service_us BIGINT NOT NULL,
    origin_requests BIGINT NOT NULL,
    origin_us BIGINT NOT NULL,
    PRIMARY KEY (hour, instance, site, route, door, outcome, status)
){storage};

CREATE TABLE IF NOT EXISTS contents (
    instance VARCHAR(64) NOT NULL,
    place BIGINT NOT NULL,
    hash VARCHAR(64) NOT NULL,
    url TEXT NOT NULL,
    size BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    hits BIGINT NOT NULL,
    tags TEXT NOT NULL,
    tier VARCHAR(32) NOT NULL,
    PRIMARY KEY (instance, place)
){storage};

CREATE TABLE IF NOT EXISTS outcomes (
    outcome VARCHAR(32) NOT NULL PRIMARY KEY,
    hit BIGINT NOT NULL,
    miss BIGINT NOT NULL,
    from_cache BIGINT NOT NULL
){storage};

CREATE TABLE IF NOT EXISTS writers (
    run BIGINT NOT NULL PRIMARY KEY,
    instance VARCHAR(64) NOT NULL,
    written BIGINT NOT NULL,
    batch BIGINT NOT NULL
){storage};
