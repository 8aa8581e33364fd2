// A client made by Thrift's compiler, with the same commands as client.py; PORT,FILE for TLS, too.

#include <atomic>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <thrift/TConfiguration.h>
#include <thrift/protocol/TCompactProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSSLSocket.h>
#include <thrift/transport/TSocket.h>

#include "Larder.h"

using namespace apache::thrift;

static const int LIMIT = 64 << 20;

static std::shared_ptr<transport::TSocket> socket_to(const std::string &port, std::shared_ptr<TConfiguration> limits) {
    auto comma = port.find(',');
    int number = std::stoi(port.substr(0, comma));
    if (comma == std::string::npos) return std::make_shared<transport::TSocket>("127.0.0.1", number, limits);
    // OpenSSL is in use as long as there is a factory.
    static transport::TSSLSocketFactory factory;
    factory.loadTrustedCertificates(port.substr(comma + 1).c_str());
    factory.authenticate(true);
    return factory.createSocket("127.0.0.1", number);
}

static std::shared_ptr<larder::LarderClient> connect(const std::string &port) {
    auto limits = std::make_shared<TConfiguration>(LIMIT, LIMIT);
    auto socket = socket_to(port, limits);
    auto framed = std::make_shared<transport::TFramedTransport>(socket, limits);
    framed->open();
    return std::make_shared<larder::LarderClient>(std::make_shared<protocol::TCompactProtocol>(framed));
}

static void get(const std::string &port, const std::string &url, const std::string &file) {
    std::string page;
    try {
        connect(port)->get_data(page, url);
    } catch (const larder::FetchFailed &failed) {
        std::cout << "failed " << failed.status << " " << failed.why << std::endl;
        return;
    }
    std::ofstream(file, std::ios::binary) << page;
    std::cout << "page of " << page.size() << std::endl;
}

static void many(const std::string &port, const std::string &url, int count) {
    std::atomic<int> pages{0};
    std::atomic<size_t> length{0};
    std::vector<std::shared_ptr<larder::LarderClient>> clients;
    for (int at = 0; at < count; at++) clients.push_back(connect(port));
    std::vector<std::thread> calls;
    for (auto &client : clients)
        calls.emplace_back([&] {
            std::string page;
            client->get_data(page, url);
            length = page.size();
            pages++;
        });
    for (auto &call : calls) call.join();
    std::cout << pages << " pages of " << length << std::endl;
}

static void statistics(const std::string &port) {
    auto client = connect(port);
    larder::Statistics found;
    client->print_statistics(found);
    std::cout << found.requests << " " << found.hits << " " << found.misses << " " << found.policy << std::endl;
    client->reset_statistics();
    client->print_statistics(found);
    std::cout << "then " << found.requests << std::endl;
}

int main(int count, char **words) {
    std::string port = words[1], command = words[2];
    if (command == "get" && count == 5) get(port, words[3], words[4]);
    if (command == "many" && count == 5) many(port, words[3], std::stoi(words[4]));
    if (command == "statistics") statistics(port);
}
