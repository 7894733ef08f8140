// Package monitoring gets the programs of Prometheus, with which the alerts of config/monitoring are
// tested: by promtool on series that its test file makes up, and in test/e2e by a Prometheus that
// scrapes the manager.
package monitoring
