/**
 * Pages from the web, through the cache of a Larder that runs with `--thrift ADDRESS`.
 *
 * Any transport (framed or buffered) and protocol (binary or compact) will do: the server finds out.
 *
 *   thrift --gen py larder.thrift
 *
 *   from thrift.transport import TSocket, TTransport
 *   from thrift.protocol import TBinaryProtocol
 *   from larder import Larder
 *   transport = TTransport.TBufferedTransport(TSocket.TSocket("127.0.0.1", 9090))
 *   transport.open()
 *   larder = Larder.Client(TBinaryProtocol.TBinaryProtocol(transport))
 *   page = larder.get_data("http://example.org/")
 *
 * The libraries of Thrift refuse large pages unless told otherwise. For Python, it is `string_length_limit` of the
 * protocol, and of a framed transport `max_frame_size`, that say how large; both are 16,384,000 bytes by default.
 */

namespace cpp larder
namespace py larder

/** There is no page. */
exception FetchFailed {
  /** What was asked for. Not called `what`, which C++ has for every exception. */
  1: string url,
  /** The reason, one line. */
  2: string why,
  /** The HTTP status that says the same: the origin's, or 502 if it did not answer. */
  3: i32 status
}

/** What was counted since the server started, or since the last reset_statistics. */
struct Statistics {
  /** Requests answered. */
  1: i64 requests,
  /** Of them, those answered from the cache. */
  2: i64 hits,
  /** Of them, those that had to be fetched. */
  3: i64 misses,
  /** hits / (hits + validated + misses), from 0 to 1. */
  4: double hit_ratio,
  /** Bytes from the cache / bytes served, over the same requests, from 0 to 1. */
  5: double byte_hit_ratio,
  /** Mean time to serve a request, in microseconds. */
  6: double average_micros,
  /** Half of the requests were served in this time, in microseconds. */
  7: double p50_micros,
  /** 90 of 100 requests were. */
  8: double p90_micros,
  /** 99 of 100 requests were. */
  9: double p99_micros,
  /** Bytes of content in the cache. */
  10: i64 bytes_stored,
  /** Objects in the cache. */
  11: i64 entries,
  /** What the cache may hold, in capacity_unit. */
  12: i64 capacity,
  /** "bytes" or "entries". */
  13: string capacity_unit,
  /** The eviction policy in force. */
  14: string policy,
  /** Of the requests, those answered from the cache after the origin said that it is still good. */
  15: i64 validated,
  /** (hits + validated) / (hits + validated + misses), from 0 to 1. */
  16: double validated_hit_ratio
}

service Larder {
  /** The page at `url`: from the cache, or else fetched, stored and returned. */
  binary get_data(1: string url) throws (1: FetchFailed failure),

  /** What was counted. */
  Statistics print_statistics(),

  /** Resets the counters to zero. Stored pages stay. */
  void reset_statistics()
}
