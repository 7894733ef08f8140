package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	// hostileNode is the node whose token is used, hostileEvery how often it writes.
	hostileNode  = "node-0001"
	hostileEvery = 100 * time.Millisecond
	// maxHostileTime is how much longer a rollout may take meanwhile.
	maxHostileTime = 2.0
	// minHostileRate is how many writes per second an attack has at least, to count as one.
	minHostileRate = 9.0
)

// attacked is what a rollout costs while the token of one node is used to disturb it.
type attacked struct {
	nodes           int
	calm, disturbed roll
	// writes is how many the API server took from the token.
	writes int
	// perSecond is how many of them per second.
	perSecond float64
}

// measureHostile measures a calm rollout, and one while one node's agent asks ten times a second for the
// upgrade of another pod of the same DaemonSet.
func measureHostile(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) (err error) {
	c := raceNamed("1000").shrunk(o.shrink)
	b, err := newRaceCluster(ctx, project, c, progress, ours)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	a := &attacked{nodes: c.nodes}
	if a.calm, err = b.roll(ctx, ours, rollTimeout); err != nil {
		return err
	}
	b.say("calm          %s", a.calm)
	stop, err := b.attack(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if a.disturbed, err = b.roll(ctx, ours, rollTimeout); err == nil {
		a.writes, err = stop()
	}
	a.perSecond = float64(a.writes) / time.Since(began).Seconds()
	b.say("disturbed     %s; %d writes of one node", a.disturbed, a.writes)
	r.results = append(r.results, a)
	return err
}

// attack writes with the token of a node until the returned function is called, which returns how often the
// API server took it.
func (b *raceCluster) attack(ctx context.Context) (stop func() (int, error), err error) {
	kubeconfig, err := b.cluster.ServiceAccountKubeconfig(ctx, harness.AgentAccount, hostileNode)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the token of %s: %w", hostileNode, err)
	}
	config.QPS = -1 // an attacker does not limit itself
	agent, err := client.New(config, client.Options{Scheme: b.cluster.Client.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", hostileNode, err)
	}
	node := &corev1.Node{}
	if err := b.cluster.Client.Get(ctx, client.ObjectKey{Name: hostileNode}, node); err != nil {
		return nil, fmt.Errorf("reading %s: %w", hostileNode, err)
	}
	own := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: hostileNode,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}}}
	if err := client.IgnoreAlreadyExists(agent.Create(ctx, own)); err != nil {
		return nil, fmt.Errorf("creating the NodeUpgrade of %s: %w", hostileNode, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	writes := 0
	go func() {
		ticker := time.NewTicker(hostileEvery)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-ticker.C:
			}
			request := fmt.Sprintf(`{"id":"r%[1]d","daemonSet":{"namespace":%[2]q,"name":%[3]q,"uid":"u"},"pod":{"namespace":%[2]q,"name":"pod-%[1]d","uid":"u"},"requestTime":%[4]q}`,
				i, namespace, ours, time.Now().UTC().Format(time.RFC3339))
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"requests":[`+request+`]}}`))
			if err := agent.Status().Patch(ctx, &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: hostileNode}}, patch); err != nil && ctx.Err() == nil {
				done <- fmt.Errorf("writing with the token of %s: %w", hostileNode, err)
				return
			}
			writes++
		}
	}()
	return func() (int, error) {
		cancel()
		err := <-done
		return writes, err
	}, nil
}

func (a *attacked) verdicts() []verdict {
	slower := a.disturbed.done.Seconds() / a.calm.done.Seconds()
	return []verdict{{fmt.Sprintf("hostile: with the token of one node at 10 writes a second, %d nodes are done within %.0f times the calm time", a.nodes, maxHostileTime),
		fmt.Sprintf("%s, calm %s: %.2f; %d writes, %.1f per second; %.1f CPU s, calm %.1f", a.disturbed.time(), a.calm.time(), slower, a.writes, a.perSecond, a.disturbed.used.cpu.Seconds(), a.calm.used.cpu.Seconds()),
		a.disturbed.complete && slower < maxHostileTime && a.perSecond >= minHostileRate}}
}
