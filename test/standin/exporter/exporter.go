// Package exporter simulates the exporter: the documented metrics on its port
// (docs/components.md 1.5), with made-up values.
package exporter

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

const closingTime = 5 * time.Second

// Run serves the metrics of the node's cards until ctx is done. It holds the cards
// open, and returns gcu.ErrNoCard if there are none.
func Run(ctx context.Context, node gcu.Node, args []string) error {
	flags := flag.NewFlagSet("exporter", flag.ContinueOnError)
	address := flags.String("web.listen-address", ":9400", "where to serve")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cards, err := node.Open()
	if err != nil {
		return err
	}
	defer cards.Close()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler(node))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: closingTime}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	log.Printf("serves %s", listener.Addr())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		closing, cancel := context.WithTimeout(context.Background(), closingTime)
		defer cancel()
		return errors.Join(server.Shutdown(closing), ignoreClosed(<-ended))
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// metrics are the metrics of a card, with the values of a healthy idle one.
var metrics = []struct {
	name, help string
	value      float64
}{
	{"usage", "Usage of the card in percent.", 0},
	{"health", "Health of the card: 2 healthy, 1 bad, 0 unknown.", 2},
	{"temperatures", "Temperature of the card in degrees Celsius.", 41},
	{"memory_total_bytes", "Memory of the card.", 16384 << 20},
	{"memory_used_bytes", "Used memory of the card.", 0},
	{"memory_usage", "Used part of the memory, from 0 to 1.", 0},
	{"power_consumption", "Power that the card takes in watts.", 60},
	{"power_capability", "Power that the card may take in watts.", 300},
	{"ecc_single_bit_error_total_count", "Errors of one bit that were corrected.", 0},
	{"ecc_double_bit_error_total_count", "Errors of two bits.", 0},
	{"pcie_link_width", "Width of the link.", 16},
	{"pcie_max_link_width", "Width that the link can have.", 16},
}

// handler reads the cards at each scrape.
func handler(node gcu.Node) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		registry := prometheus.NewRegistry()
		fill(registry, node)
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}

func fill(registry *prometheus.Registry, node gcu.Node) {
	cards := node.Cards()
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "enflame_gcu", Name: name, Help: help}, labels)
		registry.MustRegister(g)
		return g
	}
	gauge("exporter_up", "1 when the exporter works.").WithLabelValues().Set(1)
	gauge("count", "Number of cards.", "host").WithLabelValues(host()).Set(float64(len(cards)))
	perCard := []string{"host", "minor_number", "uuid", "name"}
	labels := func(card string) []string {
		number := strings.TrimPrefix(filepath.Base(card), "gcu")
		return []string{host(), number, "GCU-" + number, "standin"}
	}
	info := gauge("info", "What the card is.", append(perCard, "fw_version")...)
	for _, card := range cards {
		info.WithLabelValues(append(labels(card), node.Version())...).Set(1)
	}
	for _, m := range metrics {
		g := gauge(m.name, m.help, perCard...)
		for _, card := range cards {
			g.WithLabelValues(labels(card)...).Set(m.value)
		}
	}
}

func host() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
