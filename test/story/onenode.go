package story

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

func (s *Story) startTraining(ctx context.Context) error {
	s.narrator.chapter("A training on %s uses a card", otaNode)
	if err := s.show(ctx, "create", "-f", training); err != nil {
		return err
	}
	if err := s.show(ctx, "wait", "--for=condition=Available", "deployment/training", "--timeout=60s"); err != nil {
		return err
	}
	before, err := s.trainingPods(ctx)
	if err != nil {
		return err
	}
	if len(before) != 1 || before[0].Spec.NodeName != otaNode {
		return fmt.Errorf("the pods of the training are %v, expected one on %s", names(before), otaNode)
	}
	s.trained = before[0].Name
	return s.show(ctx, "get", "pods", "-l", "app=training", "-o", "wide")
}

func (s *Story) switchToOTA(ctx context.Context) error {
	s.narrator.chapter("Strategy OTA: from now on a node is upgraded only on request. A new driver and a new toolkit")
	if err := s.show(ctx, "annotate", "--overwrite", "gr", grName, topsv1.AnnotationUpdateStrategy+"=OTA"); err != nil {
		return err
	}
	before, err := s.driverTarget(ctx, "")
	if err != nil {
		return err
	}
	s.observer.Reset()
	if err := s.change(ctx, `{"driver":{"version":"1.2.0"},"toolkit":{"version":"1.2.0"}}`); err != nil {
		return err
	}
	if _, err := s.driverTarget(ctx, before); err != nil {
		return err
	}
	ctx2, cancel := context.WithTimeout(ctx, chapterTimeout)
	defer cancel()
	err = harness.Eventually(ctx2, func() error {
		for _, name := range []string{driverName, toolkitName} { // one follows the other
			pods, err := s.podsOf(ctx2, name)
			if err != nil {
				return err
			}
			waiting := 0
			for _, pod := range pods {
				if needUpgrade(&pod) == corev1.ConditionTrue {
					waiting++
				}
			}
			if waiting != Nodes {
				return fmt.Errorf("%d of %d pods of %s have %s=True", waiting, Nodes, name, topsv1.PodNeedUpgrade)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.narrator.says("all %d driver pods have the condition %s=True, and none was replaced", Nodes, topsv1.PodNeedUpgrade)
	return s.show(ctx, "get", "pods", "-n", namespace, "-l", nameLabel+"="+driverName, "--field-selector", "spec.nodeName="+otaNode, "-o",
		`custom-columns=NODE:.spec.nodeName,POD:.metadata.name,NEED-UPGRADE:.status.conditions[?(@.type=="PodNeedUpgrade")].status,MESSAGE:.status.conditions[?(@.type=="PodNeedUpgrade")].message`)
}

func (s *Story) upgradeOneNode(ctx context.Context) error {
	s.narrator.chapter("Request an upgrade on %s from its node agent, with curl", otaNode)
	target, err := s.driverTarget(ctx, "")
	if err != nil {
		return err
	}
	url := s.agents.Of(otaNode).URL + "/v1/upgrade"
	s.requested = time.Now().Truncate(time.Second) // as the API server keeps times
	answer, err := exec.CommandContext(ctx, "curl", "-sS", "--fail-with-body", "-X", "POST", url).CombinedOutput()
	s.narrator.command("curl -X POST "+url, string(answer))
	if err != nil {
		return fmt.Errorf("calling the node agent: %w", err)
	}
	if err := s.followTasks(ctx); err != nil {
		return err
	}
	s.narrator.says("driver and toolkit were replaced while no pod used a card (make test-nodes restarts a real docker in between, which kills the agent)")
	// One node is updated, and all others wait for a request.
	err = s.follow(ctx, func(r *topsv1.DaemonRollout) bool {
		return r.Status.Updated == 1 && r.Status.InFlightNodes == 0 && r.Status.HeldNodes == Nodes-1
	})
	if err != nil {
		return err
	}
	if err := s.onlyOne(ctx, target); err != nil {
		return err
	}
	s.narrator.says("only %s runs the new driver, the other %d nodes were not touched", otaNode, Nodes-1)
	if err := s.trainingIsBack(ctx); err != nil {
		return err
	}
	if err := s.withinBudget(); err != nil {
		return err
	}
	return s.show(ctx, "get", "nu", otaNode)
}

// onlyOne fails unless only the requesting node has the new driver, and no pod was
// deleted on any other node.
func (s *Story) onlyOne(ctx context.Context, target string) error {
	pods, err := s.driverPods(ctx)
	if err != nil {
		return err
	}
	if nodes := nodesAt(pods, target); len(nodes) != 1 || nodes[0] != otaNode {
		return fmt.Errorf("nodes with the new driver are %v, expected only %s", nodes, otaNode)
	}
	for pod, node := range s.observer.Deleted() {
		if node != otaNode {
			return fmt.Errorf("pod %s was deleted on %s without a request", pod, node)
		}
	}
	return nil
}

// tasksOfCard are what the upgrade of driver and toolkit has to do on a node, in any order.
var tasksOfCard = []string{"node_cordon", "node_evict", "driver_replace", "toolkit_replace", "node_restart-runtime", "driver_verify", "runtime_verify", "allocatable_verify", "node_uncordon"}

// followTasks prints each task of the operation on the requesting node when it ends, until the operation is done.
func (s *Story) followTasks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, chapterTimeout)
	defer cancel()
	begin, printed := time.Now(), map[string]bool{}
	err := harness.Eventually(ctx, func() error {
		var upgrade topsv1.NodeUpgrade
		if err := s.cluster.Client.Get(ctx, client.ObjectKey{Name: otaNode}, &upgrade); err != nil {
			return err
		}
		asked, shown := upgrade.Spec.Operation, upgrade.Status.Operation
		if asked == nil || shown == nil || shown.ID != asked.ID {
			return errors.New("the operation has not begun")
		}
		if shown.StartTime.Time.Before(s.requested) {
			return errors.New("the last operation of the node is the one before")
		}
		for _, t := range shown.Tasks {
			name := strings.TrimPrefix(t.Name, otaNode+"_")
			if t.EndTime == nil { // those after it may be done for now, until what they depend on is replaced
				break
			}
			if printed[name] {
				continue
			}
			printed[name] = true
			s.narrator.step(time.Since(begin), fmt.Sprintf("%-23s %s", name, t.State), t.Message)
		}
		if shown.Phase.Final() && shown.Phase != topsv1.OperationDone {
			return harness.Final(fmt.Errorf("the operation ended %s: %s %s", shown.Phase, shown.Reason, shown.Message))
		}
		if shown.Phase != topsv1.OperationDone {
			return fmt.Errorf("the operation is %s: %s", shown.Phase, shown.Message)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, task := range tasksOfCard {
		if !printed[task] {
			return fmt.Errorf("the operation had no task %s", task)
		}
	}
	return nil
}

// trainingIsBack checks that the training was evicted, and that its successor runs on the node since it is open again.
func (s *Story) trainingIsBack(ctx context.Context) error {
	if err := s.show(ctx, "wait", "--for=condition=Available", "deployment/training", "--timeout=60s"); err != nil {
		return err
	}
	if err := s.show(ctx, "get", "pods", "-l", "app=training", "-o", "wide"); err != nil {
		return err
	}
	pods, err := s.trainingPods(ctx)
	if err != nil {
		return err
	}
	if len(pods) != 1 || pods[0].Name == s.trained {
		return fmt.Errorf("the pods of the training are %v, expected one that replaced %s", names(pods), s.trained)
	}
	s.narrator.says("training pod %s was evicted before the driver changed; its successor runs on %s again", s.trained, otaNode)
	return nil
}

// trainingPods returns the pods of the training that are not being deleted.
func (s *Story) trainingPods(ctx context.Context) (pods []corev1.Pod, err error) {
	var list corev1.PodList
	if err := s.cluster.Client.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{"app": "training"}); err != nil {
		return nil, err
	}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

func names(pods []corev1.Pod) (all []string) {
	for i := range pods {
		all = append(all, pods[i].Name)
	}
	return all
}
