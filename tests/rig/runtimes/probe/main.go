// Probe is what tests run inside pods: it waits, reads files, and asks servers over TLS.
//
// Answers go to stdout, everything else to stderr. The exit code tells how it went: 0 for an answer of
// 200 to 299, 4 or 5 for the class of any other answer, 1 when there was none, 64 for a wrong call.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
	timeout        = 30 * time.Second
	usage          = `probe sleep                    wait for SIGTERM
probe read FILE                print a file
probe get-api PATH             ask the Kubernetes API with this pod's own token
probe https-get URL --ca FILE  ask any server, trusting that authority alone
`
	exitNoAnswer = 1
	exitUsage    = 64
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
	}
	os.Exit(code)
}

func run(arguments []string) (int, error) {
	switch {
	case matches(arguments, "sleep"):
		return sleep(), nil
	case matches(arguments, "read", "FILE"):
		return read(arguments[1])
	case matches(arguments, "get-api", "PATH"):
		return getAPI(arguments[1])
	case matches(arguments, "https-get", "URL", "--ca", "FILE"):
		return get(arguments[1], arguments[3], "")
	}
	return exitUsage, fmt.Errorf("cannot %q; it can:\n%s", arguments, usage)
}

// matches compares words; those in capitals stand for any value.
func matches(arguments []string, pattern ...string) bool {
	if len(arguments) != len(pattern) {
		return false
	}
	for i, word := range pattern {
		if word != arguments[i] && word != strings.ToUpper(word) {
			return false
		}
	}
	return true
}

func sleep() int {
	orders := make(chan os.Signal, 1)
	signal.Notify(orders, syscall.SIGTERM, syscall.SIGINT)
	<-orders
	return 0
}

func read(file string) (int, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return exitNoAnswer, err
	}
	_, err = os.Stdout.Write(content)
	return 0, err
}

func getAPI(path string) (int, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return exitNoAnswer, errors.New("KUBERNETES_SERVICE_HOST and _PORT are not set: is this a pod?")
	}
	token, err := os.ReadFile(filepath.Join(serviceAccount, "token"))
	if err != nil {
		return exitNoAnswer, fmt.Errorf("this pod has no token: %w", err)
	}
	url := "https://" + net.JoinHostPort(host, port) + path
	return get(url, filepath.Join(serviceAccount, "ca.crt"), strings.TrimSpace(string(token)))
}

func get(url, authority, token string) (int, error) {
	client, err := clientTrusting(authority)
	if err != nil {
		return exitNoAnswer, err
	}
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return exitUsage, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return exitNoAnswer, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(os.Stdout, answer.Body); err != nil {
		return exitNoAnswer, err
	}
	return codeFor(answer)
}

func clientTrusting(authority string) (*http.Client, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", authority)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	return &http.Client{Transport: transport, Timeout: timeout}, nil
}

func codeFor(answer *http.Response) (int, error) {
	class := answer.StatusCode / 100
	if class == 2 {
		return 0, nil
	}
	return class, fmt.Errorf("%s answered %s", answer.Request.URL, answer.Status)
}
