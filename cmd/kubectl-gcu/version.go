package main

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/discovery"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// operatorName is the name of the Deployment of the manager.
const operatorName = "gcu-operator"

// versions of the plugin, the cluster and the operator.
type versions struct {
	Plugin     string `json:"plugin"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	Kubernetes string `json:"kubernetes,omitempty"`
	// Operator is the image of the manager.
	Operator string `json:"operator,omitempty"`
	// NodeAgents counts the nodes by the version of their agent.
	NodeAgents map[string]int `json:"nodeAgents,omitempty"`
	NotShown   []string       `json:"notShown,omitempty"`
}

func versionCommand(c *cli) *cobra.Command {
	var o output
	var clientOnly bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin, the operator and the node agents",
		Long: `Print the version of this plugin and of Kubernetes, the image of the operator, and how
many node agents run which version.`,
		Example: `  kubectl gcu version

  # Without asking the cluster
  kubectl gcu version --client`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			v := versions{Plugin: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if !clientOnly {
				cl, err := c.connect()
				if err != nil {
					return err
				}
				addVersions(ctx, cl, &v)
			}
			return c.print(o, v, v.text)
		}),
	}
	o.bind(command)
	command.Flags().BoolVar(&clientOnly, "client", false, "only that of the plugin")
	return command
}

// addVersions reads the versions of the cluster, and records what fails.
func addVersions(ctx context.Context, cl *cluster, v *versions) {
	note := func(what string, err error) bool {
		if err != nil {
			v.NotShown = append(v.NotShown, fmt.Sprintf("%s: %v", what, err))
		}
		return err == nil
	}
	if d, err := discovery.NewDiscoveryClientForConfig(cl.config); note("Kubernetes", err) {
		if server, err := d.ServerVersion(); note("Kubernetes", err) {
			v.Kubernetes = server.GitVersion
		}
	}
	var manager appsv1.Deployment
	if note("the operator", cl.read(ctx, cl.namespace, operatorName, &manager)) && len(manager.Spec.Template.Spec.Containers) > 0 {
		v.Operator = manager.Spec.Template.Spec.Containers[0].Image
	}
	var upgrades topsv1.NodeUpgradeList
	if note("node agents", cl.all(ctx, "", &upgrades)) {
		v.NodeAgents = map[string]int{}
		for i := range upgrades.Items {
			if agent := upgrades.Items[i].Status.Agent; agent != nil {
				v.NodeAgents[agent.Version]++
			}
		}
	}
}

func (v versions) text(display.Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kubectl gcu:  %s (%s, %s)\n", v.Plugin, v.Go, v.Platform)
	if v.Kubernetes != "" {
		fmt.Fprintf(&b, "Kubernetes:   %s\n", v.Kubernetes)
	}
	if v.Operator != "" {
		fmt.Fprintf(&b, "operator:     %s\n", v.Operator)
	}
	for _, agent := range slices.Sorted(maps.Keys(v.NodeAgents)) {
		fmt.Fprintf(&b, "node agent:   %s on %s\n", plaintext.Line(agent), message.Count(v.NodeAgents[agent], "node"))
	}
	for _, n := range v.NotShown {
		fmt.Fprintf(&b, "not shown: %s\n", n)
	}
	return b.String()
}
