package gcuresource

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestContractInstallation(t *testing.T) {
	read := func(file string, into any) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("contract 61: the REST API is on port 32765 of the nodes", func(t *testing.T) {
		var service struct {
			Spec struct {
				Type  string
				Ports []struct {
					Port, NodePort int
					TargetPort     string
				}
			}
		}
		read("upgrade_api_service.yaml", &service)
		var deployment struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Ports []struct {
								Name          string
								ContainerPort int
							}
						}
					}
				}
			}
		}
		read("deployment.yaml", &deployment)
		var listens int
		for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
			if port.Name == service.Spec.Ports[0].TargetPort {
				listens = port.ContainerPort
			}
		}
		if p := service.Spec.Ports[0]; service.Spec.Type != "NodePort" || p.Port != 32765 || p.NodePort != 32765 || listens != 32765 {
			t.Errorf("got %+v, the container listens on %d", service, listens)
		}
	})
	t.Run("contract 58: the operator is Deployment gcu-operator in kube-system, one replica", func(t *testing.T) {
		var place struct{ Namespace string }
		read("kustomization.yaml", &place)
		var deployment struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ Replicas int }
		}
		read("deployment.yaml", &deployment)
		if place.Namespace != "kube-system" || deployment.Kind != "Deployment" || deployment.Metadata.Name != "gcu-operator" || deployment.Spec.Replicas != 1 {
			t.Errorf("got %+v in %+v", deployment, place)
		}
	})
}
