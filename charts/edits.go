package main

import (
	"strconv"
	"strings"
)

// image is how config/ names the operator's image.
const image = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-operator:dev"

// webhook is the condition of config/webhook. A release of an earlier chart, upgraded with --reuse-values, has no such value.
const webhook = "(.Values.admissionWebhook).enabled"

// folders are the parts of the chart.
var folders = []folder{
	{name: "crd", when: ".Values.crds.install", edits: map[string][]edit{
		"*": {{old: "  annotations:\n    controller-gen", new: "  annotations:\n    helm.sh/resource-policy: keep\n    controller-gen"}},
	}},
	{name: "rbac"},
	{name: "admission", when: ".Values.admissionPolicies.enabled"},
	{name: "manager", edits: map[string][]edit{
		"deployment.yaml":          deployment,
		"network_policy.yaml":      networkPolicy,
		"nfd_network_policy.yaml":  nfdNetworkPolicy,
		"upgrade_api_service.yaml": upgradeAPIService,
	}},
	{name: "node-agent", when: ".Values.nodeAgent.enabled", edits: map[string][]edit{"daemonset.yaml": daemonSet}},
	{name: "rest-api", when: `and .Values.restAPI.enabled (eq .Values.restAPI.auth "none")`},
	{name: "gate", when: "(.Values.gate).enabled"},
	{name: "webhook", when: webhook},
	{name: "volcano", when: ".Values.volcano.rights"},
}

// own are the edits of the operator's image, and of what every pod of it may have.
var own = []edit{
	{old: "image: " + image, new: `image: {{ include "gcu-operator.image" . | quote }}`, times: -1},
	{old: "imagePullPolicy: IfNotPresent", new: "imagePullPolicy: {{ .Values.image.pullPolicy }}", times: -1},
}

var deployment = append([]edit{
	{old: "  replicas: 1\n", new: "  {{- if not .Values.autoscaling.enabled }}\n  replicas: {{ .Values.replicaCount }}\n  {{- end }}\n"},
	{old: "      serviceAccountName: gcu-operator\n", new: `      serviceAccountName: gcu-operator
      {{- include "gcu-operator.imagePullSecrets" . | nindent 6 }}
      {{- with .Values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if gt (int (include "gcu-operator.replicas" .)) 1 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app.kubernetes.io/name: gcu-operator
      {{- end }}
`},
	instead("affinity", 6, `      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              preference:
                matchExpressions:
                  - key: node-role.kubernetes.io/control-plane
                    operator: Exists
`),
	{old: "      # The kubelet makes the directories", new: `        {{- with .Values.tolerations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      # The kubelet makes the directories`},
	{old: "          args: [--leader-elect]\n", new: `          args:
            - --leader-elect
            {{- if (.Values.gate).enabled }}
            - --gate
            {{- end }}
            {{- if ` + webhook + ` }}
            - --webhook-bind-address=:9443
            {{- end }}
            {{- if not .Values.restAPI.enabled }}
            - --upgrade-api-bind-address=0
            {{- else if eq .Values.restAPI.auth "none" }}
            - --upgrade-api-auth=none
            {{- end }}
            {{- with .Values.restAPI.hosts }}
            - --upgrade-api-hosts={{ join "," . }}
            {{- end }}
            {{- with (.Values.notifications).url }}
            - --notify-url={{ . }}
            - --notify-secret-file=/etc/gcu-operator/notifications/secret
            {{- with $.Values.notifications.caKey }}
            - --notify-ca-file=/etc/gcu-operator/notifications/{{ . }}
            {{- end }}
            {{- end }}
            {{- range .Values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
`},
	{old: "          ports:\n            - name: metrics\n", new: `            {{- include "gcu-operator.proxy" . | nindent 12 }}
          ports:
            - name: metrics
`},
	{old: "            - name: upgrade-api\n              containerPort: 32765\n", new: `            {{- if .Values.restAPI.enabled }}
            - name: upgrade-api
              containerPort: 32765
            {{- end }}
            {{- if ` + webhook + ` }}
            - name: webhook
              containerPort: 9443
            {{- end }}
`},
	instead("resources", 10, `          resources:
            requests:
              cpu: 100m
              memory: 128Mi
            limits:
              memory: 512Mi
`),
	{old: "          hostPath:\n            path: /topsdata/dcp/gcu-upgrade-manager/blueprints\n            type: DirectoryOrCreate\n", new: `          {{- with .Values.restAPI.blueprintsConfigMap }}
          configMap:
            name: {{ . }}
          {{- else }}
          hostPath:
            path: /topsdata/dcp/gcu-upgrade-manager/blueprints
            type: DirectoryOrCreate
          {{- end }}
`},
	{old: "              mountPath: /topsdata/dcp/gcu-upgrade-manager/blueprints\n              readOnly: true\n", new: `              mountPath: /topsdata/dcp/gcu-upgrade-manager/blueprints
              readOnly: true
            {{- if (.Values.notifications).url }}
            - name: notifications
              mountPath: /etc/gcu-operator/notifications
              readOnly: true
            {{- end }}
`},
	{old: "      volumes:\n        - name: log\n", new: `      volumes:
        {{- if (.Values.notifications).url }}
        - name: notifications
          secret:
            secretName: {{ required "notifications.url needs notifications.secretName" .Values.notifications.secretName }}
            # without it notifications fail, and nothing else
            optional: true
            # the manager is not root, and in no group of the volume
            defaultMode: 0444
        {{- end }}
        - name: log
`},
}, own...)

var daemonSet = append([]edit{
	{old: "      serviceAccountName: gcu-node-agent\n", new: `      serviceAccountName: gcu-node-agent
      {{- with .Values.nodeAgent.otaSocketGroup }}
      securityContext:
        supplementalGroups: [{{ int64 . }}]
      {{- end }}
      {{- include "gcu-operator.imagePullSecrets" . | nindent 6 }}
`},
	{old: "      nodeSelector:\n        enflame.com/gcu.present: \"true\"\n", new: `      nodeSelector: {{- include "gcu-operator.with" (list .Values.nodeAgent.nodeSelector (dict "enflame.com/gcu.present" "true")) | nindent 8 }}
`},
	{old: "          command: [/usr/bin/node-agent]\n", new: `          command: [/usr/bin/node-agent]
          {{- range .Values.nodeAgent.args }}
          {{- if hasPrefix "--ota-socket" . }}
          {{- fail (printf "nodeAgent.args has %s: set nodeAgent.otaSocketGroup for a group; the probes of the node agent call its default socket" .) }}
          {{- end }}
          {{- end }}
          {{- $args := .Values.nodeAgent.args | default list }}
          {{- with .Values.nodeAgent.otaSocketGroup }}
          {{- $args = append $args (printf "--ota-socket-group=%d" (int64 .)) }}
          {{- end }}
          {{- with $args }}
          args: {{- toYaml . | nindent 12 }}
          {{- end }}
`},
	{old: "          # By the socket, which only root can serve", new: `            {{- include "gcu-operator.proxy" . | nindent 12 }}
          # By the socket, which only root can serve`},
	insteadOf(".Values.nodeAgent.resources", "resources", 10, `          resources:
            requests:
              cpu: 5m
              memory: 32Mi
            limits:
              memory: 128Mi
`),
	{old: "              add: [DAC_OVERRIDE]\n", new: "              add: [DAC_OVERRIDE{{ if .Values.nodeAgent.seeDeviceHolders }}, SYS_PTRACE{{ end }}]\n"},
}, own...)

// networkPolicy has the egress of config/components/limit-egress too.
var networkPolicy = []edit{
	{old: "apiVersion: networking.k8s.io/v1\n", new: "{{- if .Values.networkPolicy.enabled }}\napiVersion: networking.k8s.io/v1\n"},
	{old: "  policyTypes: [Ingress]\n", new: "  policyTypes: [Ingress{{ if .Values.networkPolicy.limitEgress }}, Egress{{ end }}]\n"},
	{old: "        - port: upgrade-api\n", new: `        {{- if .Values.restAPI.enabled }}
        - port: upgrade-api
        {{- end }}
        {{- if ` + webhook + ` }}
        - port: webhook
        {{- end }}
  {{- if .Values.networkPolicy.limitEgress }}
  egress:
    - ports: # DNS
        - {port: 53, protocol: UDP}
        - {port: 53, protocol: TCP}
    - ports: # API server
        {{- range .Values.networkPolicy.apiServerPorts }}
        - {port: {{ . }}}
        {{- end }}
  {{- end }}
{{- end }}
`},
}

var nfdNetworkPolicy = []edit{
	{old: "apiVersion: networking.k8s.io/v1\n", new: "{{- if .Values.networkPolicy.enabled }}\napiVersion: networking.k8s.io/v1\n"},
	{old: "  policyTypes: [Ingress]\n", new: "  policyTypes: [Ingress]\n{{- end }}\n"},
}

var upgradeAPIService = []edit{
	{old: "apiVersion: v1\n", new: "{{- if .Values.restAPI.enabled }}\napiVersion: v1\n"},
	{old: "  type: NodePort\n", new: "  type: {{ .Values.restAPI.service.type }}\n"},
	{old: "      nodePort: 32765\n", new: `      {{- if and (ne .Values.restAPI.service.type "ClusterIP") .Values.restAPI.service.nodePort }}
      nodePort: {{ .Values.restAPI.service.nodePort }}
      {{- end }}
{{- end }}
`},
}

// instead lets a value of the same name take the place of a field.
func instead(name string, indent int, block string) edit {
	return insteadOf(".Values."+name, name, indent, block)
}

func insteadOf(value, field string, indent int, block string) edit {
	space := strings.Repeat(" ", indent)
	return edit{old: block, new: space + "{{- with " + value + " }}\n" +
		space + field + ": {{- toYaml . | nindent " + strconv.Itoa(indent+2) + " }}\n" +
		space + "{{- else }}\n" + block + space + "{{- end }}\n"}
}
