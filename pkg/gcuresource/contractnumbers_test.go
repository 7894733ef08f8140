package gcuresource

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// lastTested is the last statement that needs a test: those of the gr, its operator and the REST
// API.
const lastTested = 80

// A test carries the numbers of the statements it covers in the name of a
// subtest: "contract 12: …", "contract 12 and 13: …", "contract 1, 2 and 3: …".
var carried = regexp.MustCompile(`"contract ([0-9]+(?:(?:, | and )[0-9]+)*): `)

// numbersIn returns the statements that the tests in a directory carry.
func numbersIn(t *testing.T, root string) []int {
	t.Helper()
	digits := regexp.MustCompile(`[0-9]+`)
	var numbers []int
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range carried.FindAllStringSubmatch(string(source), -1) {
			for _, text := range digits.FindAllString(match[1], -1) {
				number, err := strconv.Atoi(text)
				if err != nil {
					return err
				}
				numbers = append(numbers, number)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

func TestEveryStatementOfTheContractHasATest(t *testing.T) {
	var numbers []int
	for _, root := range []string{"pkg", "cmd", "api", "test"} {
		numbers = append(numbers, numbersIn(t, filepath.Join("..", "..", root))...)
	}
	for number := 1; number <= lastTested; number++ {
		if !slices.Contains(numbers, number) {
			t.Errorf("statement %d has no test: name a subtest \"contract %d: …\"", number, number)
		}
	}
}

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
