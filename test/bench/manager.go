package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/topsops/gcu-operator/test/harness"
)

// The lease of the manager.
const (
	leaseNamespace = "kube-system"
	leaseName      = "gcu-operator.topsops.enflame.com"
)

// gauge measures the usage of a manager: requests from its metrics, the process from
// /proc, renewals of its lease with a watch.
type gauge struct {
	manager  *harness.Process
	renewals atomic.Int64
}

// usage is the usage of a manager since its start.
type usage struct {
	at time.Time
	// requests by HTTP method; renewals counts the lease writes among them.
	requests map[string]int
	renewals int
	cpu      time.Duration
	// rss and peak are bytes.
	rss, peak int64
}

// newGauge watches the lease until ctx ends.
func newGauge(ctx context.Context, c *harness.Cluster, manager *harness.Process) (*gauge, error) {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	g := &gauge{manager: manager}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(leaseNamespace),
		informers.WithTweakListOptions(func(l *metav1.ListOptions) {
			l.FieldSelector = fields.OneTermEqualSelector("metadata.name", leaseName).String()
		}))
	informer := factory.Coordination().V1().Leases().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			if before.(*coordinationv1.Lease).ResourceVersion != after.(*coordinationv1.Lease).ResourceVersion {
				g.renewals.Add(1)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching the lease: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watching the lease: %w", ctx.Err())
	}
	return g, nil
}

// read returns the usage so far.
func (g *gauge) read(ctx context.Context) (usage, error) {
	u := usage{at: time.Now(), renewals: int(g.renewals.Load())}
	var err error
	if u.requests, err = requestsOf(ctx, g.manager.URL+"/metrics"); err != nil {
		return u, err
	}
	if u.cpu, err = cpuOf(g.manager.PID()); err != nil {
		return u, err
	}
	u.rss, u.peak, err = memoryOf(g.manager.PID())
	return u, err
}

// since returns the usage since an earlier reading; rss and peak are kept.
func (u usage) since(before usage) usage {
	requests := map[string]int{}
	for method, n := range u.requests {
		if d := n - before.requests[method]; d != 0 {
			requests[method] = d
		}
	}
	u.requests, u.renewals, u.cpu = requests, u.renewals-before.renewals, u.cpu-before.cpu
	return u
}

// otherWrites returns the number of writes except deletions and renewals of the lease.
func (u usage) otherWrites() int {
	return u.requests[http.MethodPost] + u.requests[http.MethodPut] + u.requests[http.MethodPatch] - u.renewals
}

var requestLine = regexp.MustCompile(`^rest_client_requests_total\{.*method="([A-Z]+)".*\} (\S+)$`)

// requestsOf sums client-go's request counter by method.
func requestsOf(ctx context.Context, url string) (map[string]int, error) {
	sums, err := countersOf(ctx, url, requestLine)
	if err == nil && len(sums) == 0 {
		return nil, fmt.Errorf("%s has no rest_client_requests_total", url)
	}
	return sums, err
}

var passLine = regexp.MustCompile(`^controller_runtime_reconcile_total\{controller="(gcuresource)".*\} (\S+)$`)

// passesOf returns the number of passes of a manager's gcuresource controller.
func passesOf(ctx context.Context, manager *harness.Process) (int, error) {
	sums, err := countersOf(ctx, manager.URL+"/metrics", passLine)
	return sums["gcuresource"], err
}

// countersOf sums the metrics whose lines match pattern; its first group is the key,
// the second the value.
func countersOf(ctx context.Context, url string, pattern *regexp.Regexp) (map[string]int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the manager's metrics: %w", err)
	}
	defer response.Body.Close()
	sums := map[string]int{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if m := pattern.FindStringSubmatch(lines.Text()); m != nil {
			n, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", lines.Text(), err)
			}
			sums[m[1]] += int(n)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the manager's metrics: %w", err)
	}
	return sums, nil
}

// clockTick is the unit of CPU times in /proc: USER_HZ, 100 on every Linux.
const clockTick = 10 * time.Millisecond

// cpuOf returns the user and system time of a process.
func cpuOf(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the manager's CPU time: %w", err)
	}
	// The name, in parentheses, may hold spaces; utime and stime are fields 14 and 15.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	var ticks time.Duration
	for _, i := range []int{11, 12} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, fmt.Errorf("reading the manager's CPU time: %w", err)
		}
		ticks += time.Duration(n)
	}
	return ticks * clockTick, nil
}

// memoryOf returns the current and peak resident memory of a process.
func memoryOf(pid int) (rss, peak int64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the manager's memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); err == nil {
			rss = kilobytes << 10
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); err == nil {
			peak = kilobytes << 10
		}
	}
	if rss == 0 || peak == 0 {
		return 0, 0, fmt.Errorf("/proc/%d/status has no VmRSS or no VmHWM", pid)
	}
	return rss, peak, nil
}
