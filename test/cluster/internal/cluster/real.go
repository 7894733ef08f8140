package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"

	"github.com/topsops/gcu-operator/test/cluster/internal/assets"
	"github.com/topsops/gcu-operator/test/cluster/internal/controlplane"
	"github.com/topsops/gcu-operator/test/cluster/internal/image"
	"github.com/topsops/gcu-operator/test/cluster/internal/node"
	"github.com/topsops/gcu-operator/test/cluster/internal/realnode"
)

// owner returns the owner in a claim of real nodes: the state file, which exists as
// long as the cluster.
func (s *State) owner() string { return filepath.Join(s.layout.Dir, stateFile) }

// prepareReal claims addresses for real nodes and creates the bridge that the API
// server listens on. It returns nil if there are no real nodes.
func (s *State) prepareReal(ctx context.Context, spec realnode.Spec) (*controlplane.RealNodes, error) {
	if spec.Count == 0 {
		return nil, nil
	}
	// These characters separate mount options.
	if strings.ContainsAny(s.layout.Dir, `,:\`) {
		return nil, fmt.Errorf(`with --real-nodes the path of --dir must not contain a comma, a colon or a backslash: %s`, s.layout.Dir)
	}
	number, err := realnode.Claim(ctx, s.owner())
	if err != nil {
		return nil, err
	}
	s.Real = &realnode.Nodes{Spec: spec, Number: number, Disks: s.layout.Disks(), Logs: s.layout.Logs()}
	if err := s.save(); err != nil {
		return nil, err
	}
	if err := s.Real.MakeBridge(ctx); err != nil {
		return nil, err
	}
	return &controlplane.RealNodes{Names: spec.Names(), API: s.Real.APIAddress(), ServiceRange: s.Real.ServiceRange()}, nil
}

// startReal boots the real nodes without waiting for them.
func (s *State) startReal(ctx context.Context, a assets.Assets, o Options) error {
	if s.Real == nil {
		return nil
	}
	pause := filepath.Join(s.layout.Data(), "pause.tar")
	if err := image.Write(pause, image.Spec{
		Tag:        realnode.PauseTag,
		Files:      []image.File{{Source: a.Path("pause"), Destination: "/pause"}},
		Entrypoint: []string{"/pause"},
	}); err != nil {
		return err
	}
	if err := s.Real.Install(realnode.Software{
		Kubelet:       a.Path("kubelet"),
		PauseImage:    pause,
		CA:            s.layout.CA(),
		Kubeconfig:    s.layout.KubeletKubeconfig,
		LeaseDuration: o.leaseDuration(),
	}); err != nil {
		return err
	}
	for _, name := range s.Real.Names() {
		if err := s.Real.Start(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// labelReal gives the registered real nodes the labels that simulated ones are
// created with. A kubelet may not set them.
func (s *State) labelReal(ctx context.Context, client kubernetes.Interface, zones int) error {
	if s.Real == nil {
		return nil
	}
	for i, name := range s.Real.Names() {
		if err := node.Label(ctx, client, name, node.GCULabels(i+1, zones)); err != nil {
			return fmt.Errorf("labeling the real nodes: %w", err)
		}
	}
	return nil
}

// IsReal reports whether a node is a real node.
func (s *State) IsReal(name string) bool { return s.Real != nil && s.Real.Has(name) }
