// Asks a site over TLS with net/http, and prints what it gets.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var client http.Client

func ask(method, url string, content io.Reader, trailers http.Header) (*http.Response, string) {
	request, err := http.NewRequest(method, url, content)
	check(err)
	request.Trailer = trailers
	response, err := client.Do(request)
	check(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(err)
	return response, string(text)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	site, pem := os.Args[1], os.Args[2]
	authority, err := os.ReadFile(pem)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	connections := int32(0)
	client = http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		DialContext: func(context context.Context, network, address string) (net.Conn, error) {
			atomic.AddInt32(&connections, 1)
			return (&net.Dialer{}).DialContext(context, network, address)
		},
	}}
	for _, path := range []string{"/stored", "/new"} {
		response, text := ask("GET", site+path, nil, nil)
		hit := strings.Contains(response.Header.Get("Cache-Status"), "; hit")
		fmt.Println(path, response.Proto, response.StatusCode, text, hit)
	}
	// Of unknown length, so that trailers follow it.
	content := io.MultiReader(bytes.NewReader(make([]byte, 1_000_000)), strings.NewReader("end"))
	_, text := ask("POST", site+"/posted", content, http.Header{"Content-Digest": {"a=:5:"}})
	fmt.Println("posted:", text)
	response, text := ask("GET", site+"/trailers", nil, nil)
	fmt.Println("trailers:", text, response.Trailer)
	var all sync.WaitGroup
	right := int32(0)
	for number := 0; number < 100; number++ {
		all.Add(1)
		go func(path string) {
			defer all.Done()
			if _, text := ask("GET", site+path, nil, nil); text == path {
				atomic.AddInt32(&right, 1)
			}
		}(fmt.Sprintf("/together/%d", number))
	}
	all.Wait()
	fmt.Println("together:", right)
	fmt.Println("connections:", connections)
}
