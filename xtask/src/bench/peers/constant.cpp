// Thrift's own threaded server: a page of 10 KiB, whatever is asked for.

#include <memory>
#include <string>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TThreadedServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>

#include "Larder.h"

using namespace apache::thrift;

class Constant : public larder::LarderIf {
  const std::string page = std::string(10 << 10, 'x');

public:
  void get_data(std::string &found, const std::string &) override { found = page; }
  void print_statistics(larder::Statistics &) override {}
  void reset_statistics() override {}
};

int main(int, char **words) {
  server::TThreadedServer server(
      std::make_shared<larder::LarderProcessor>(std::make_shared<Constant>()),
      std::make_shared<transport::TServerSocket>("127.0.0.1", std::stoi(words[1])),
      std::make_shared<transport::TFramedTransportFactory>(),
      std::make_shared<protocol::TBinaryProtocolFactory>());
  server.serve();
}
