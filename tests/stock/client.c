/* A client made by rpcgen.
 *
 * client PORT get URL FILE     saves the page and prints its length, or prints why there is none
 * client PORT text URL -       prints the page as a C string, or why there is none
 * client PORT many URL COUNT   as many calls at once, each of a process of its own
 *
 * PORT 0 asks rpcbind; "udp" before the number calls by datagrams. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "webpage.h"

static CLIENT *larder_at(const char *place)
{
    int udp = strncmp(place, "udp", 3) == 0, socket = RPC_ANYSOCK;
    int port = atoi(udp ? place + 3 : place);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval again = {5, 0};
    CLIENT *larder;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (port == 0)
        larder = clnt_create("127.0.0.1", PROXY_FETCHPROG, PROXY_FETCHVERS, udp ? "udp" : "tcp");
    else if (udp)
        larder = clntudp_create(&address, PROXY_FETCHPROG, PROXY_FETCHVERS, again, &socket);
    else
        larder = clnttcp_create(&address, PROXY_FETCHPROG, PROXY_FETCHVERS, &socket, 0, 0);
    if (larder == NULL) {
        printf("%s\n", clnt_spcreateerror("unreachable"));
        exit(1);
    }
    return larder;
}

static webpageBytes *call(const char *place, char *url, CLIENT **larder)
{
    *larder = larder_at(place);
    return proxy_fetch_bytes_1(url, *larder);
}

static void get(const char *place, char *url, const char *file)
{
    CLIENT *larder;
    webpageBytes *page = call(place, url, &larder);
    if (page == NULL) {
        printf("%s\n", clnt_sperror(larder, "failed"));
        return;
    }
    FILE *out = fopen(file, "wb");
    fwrite(page->webPageBytes.webPageBytes_val, 1, page->webPageBytes.webPageBytes_len, out);
    fclose(out);
    printf("page of %u\n", page->webPageBytes.webPageBytes_len);
}

static void text(const char *place, char *url)
{
    CLIENT *larder = larder_at(place);
    webpageResponse *page = proxy_fetch_1(url, larder);
    printf("%s\n", page == NULL ? clnt_sperror(larder, "failed") : page->webPageContents);
}

static void many(const char *place, char *url, int count)
{
    int pages = 0, length = 0, status;
    for (int at = 0; at < count; at++)
        if (fork() == 0) {
            CLIENT *larder;
            webpageBytes *page = call(place, url, &larder);
            _exit(page == NULL ? 255 : page->webPageBytes.webPageBytes_len % 251);
        }
    while (wait(&status) > 0)
        if (WIFEXITED(status) && WEXITSTATUS(status) != 255) {
            pages++;
            length = WEXITSTATUS(status);
        }
    printf("%d pages of %d\n", pages, length);
}

int main(int count, char **words)
{
    if (count == 5 && strcmp(words[2], "get") == 0)
        get(words[1], words[3], words[4]);
    if (count == 5 && strcmp(words[2], "text") == 0)
        text(words[1], words[3]);
    if (count == 5 && strcmp(words[2], "many") == 0)
        many(words[1], words[3], atoi(words[4]));
    return 0;
}
