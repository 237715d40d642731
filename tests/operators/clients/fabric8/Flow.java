import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderCallbacks;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderElectionConfigBuilder;
import io.fabric8.kubernetes.client.extended.leaderelection.resourcelock.LeaseLock;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.File;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What an operator in Java does with its client, from the administrator's kubeconfig. */
public class Flow {
    static final String NAMESPACE = "fabric8";

    public static void main(String[] arguments) throws Exception {
        Config config = Config.fromKubeconfig(new File(arguments[0]));
        try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
            client.resource(new NamespaceBuilder().withNewMetadata().withName(NAMESPACE).endMetadata().build()).create();
            followConfigMaps(client);
            rollOut(client);
            useCustomResources(client);
            refuse(client);
            elect(client);
        }
    }

    static void followConfigMaps(KubernetesClient client) throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        SharedIndexInformer<ConfigMap> informer = client.configMaps().inNamespace(NAMESPACE).withLabel("app", "shop").inform(
            new ResourceEventHandler<ConfigMap>() {
                public void onAdd(ConfigMap added) { events.add("add " + added.getData().get("color")); }
                public void onUpdate(ConfigMap before, ConfigMap after) { events.add("update " + after.getData().get("color")); }
                public void onDelete(ConfigMap deleted, boolean isStateUnknown) { events.add("delete"); }
            });
        ConfigMap value = new ConfigMapBuilder().withNewMetadata().withName("settings").withNamespace(NAMESPACE)
            .addToLabels("app", "shop").endMetadata().addToData("color", "red").build();
        ConfigMap stored = client.resource(value).create();
        expect("add red", next(events));
        client.resource(stored).edit(before -> new ConfigMapBuilder(before).addToData("color", "green").build());
        expect("update green", next(events));
        client.resource(new ConfigMapBuilder().withNewMetadata().withName("settings").withNamespace(NAMESPACE)
            .endMetadata().addToData("size", "10").build()).fieldManager("java").serverSideApply();
        expect("update green", next(events));
        expect("10", informer.getStore().getByKey(NAMESPACE + "/settings").getData().get("size"));
        client.configMaps().inNamespace(NAMESPACE).withName("settings").delete();
        expect("delete", next(events));
        informer.close();
    }

    static void rollOut(KubernetesClient client) throws Exception {
        var deployments = client.apps().deployments().inNamespace(NAMESPACE);
        client.load(Flow.class.getResourceAsStream("/deployment.yaml")).inNamespace(NAMESPACE).serverSideApply();
        var web = deployments.withName("web");
        web.waitUntilReady(1, TimeUnit.MINUTES);
        web.scale(3);
        web.waitUntilCondition(value -> value != null && Integer.valueOf(3).equals(value.getStatus().getReadyReplicas()),
            1, TimeUnit.MINUTES);
        Deployment updated = web.patch(PatchContext.of(PatchType.STRATEGIC_MERGE),
            "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"web\",\"image\":\"web:2\"}]}}}}");
        long generation = updated.getMetadata().getGeneration();
        web.waitUntilCondition(value -> value.getStatus().getObservedGeneration() >= generation
            && Integer.valueOf(3).equals(value.getStatus().getUpdatedReplicas())
            && Integer.valueOf(3).equals(value.getStatus().getReplicas()), 1, TimeUnit.MINUTES);
        Pod pod = client.pods().inNamespace(NAMESPACE).withLabel("app", "web").list().getItems().stream()
            .filter(item -> item.getMetadata().getDeletionTimestamp() == null).findFirst().orElseThrow();
        expect("web:2", pod.getSpec().getContainers().get(0).getImage());
        expect("hello from web", client.pods().resource(pod).getLog().trim());
        expect("true", String.valueOf(client.pods().resource(pod).evict()));
        client.pods().resource(pod).waitUntilCondition(value -> value == null, 1, TimeUnit.MINUTES);
    }

    static void useCustomResources(KubernetesClient client) throws Exception {
        client.load(Flow.class.getResourceAsStream("/definition.yaml")).create();
        client.apiextensions().v1().customResourceDefinitions().withName("ships.example.com").waitUntilCondition(
            value -> value != null && value.getStatus() != null && value.getStatus().getConditions().stream()
                .anyMatch(row -> row.getType().equals("Established") && row.getStatus().equals("True")),
            1, TimeUnit.MINUTES);
        var ships = client.genericKubernetesResources("example.com/v1", "Ship").inNamespace(NAMESPACE);
        GenericKubernetesResource ship = client.getKubernetesSerialization().unmarshal(
            "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Ship\",\"metadata\":{\"name\":\"junk\"},\"spec\":{}}",
            GenericKubernetesResource.class);
        ships.resource(ship).create();
        GenericKubernetesResource stored = ships.withName("junk").editStatus(value -> {
            value.setAdditionalProperty("status", Map.of("position", "harbor"));
            return value;
        });
        expect("4", String.valueOf(stored.<Integer>get("spec", "masts")));
        expect("harbor", stored.get("status", "position"));
    }

    static void refuse(KubernetesClient client) {
        expect("404", code(() -> client.configMaps().inNamespace(NAMESPACE).withName("settings").edit(value -> value)));
        expect("422", code(() -> client.resource(new ConfigMapBuilder().withNewMetadata().withName("Not_Valid")
            .withNamespace(NAMESPACE).endMetadata().build()).create()));
        expect("409", code(() -> client.resource(
            new NamespaceBuilder().withNewMetadata().withName(NAMESPACE).endMetadata().build()).create()));
    }

    static void elect(KubernetesClient client) throws Exception {
        CompletableFuture<String> leader = new CompletableFuture<>();
        CompletableFuture<Void> stopped = new CompletableFuture<>();
        CompletableFuture<?> election = client.leaderElector().withConfig(new LeaderElectionConfigBuilder()
            .withName("flow").withLeaseDuration(Duration.ofSeconds(15)).withRenewDeadline(Duration.ofSeconds(10))
            .withRetryPeriod(Duration.ofSeconds(2)).withReleaseOnCancel(true)
            .withLock(new LeaseLock(NAMESPACE, "flow", "first"))
            .withLeaderCallbacks(new LeaderCallbacks(() -> { }, () -> stopped.complete(null), leader::complete)).build())
            .build().start();
        expect("first", leader.get(1, TimeUnit.MINUTES));
        election.cancel(true);
        stopped.get(1, TimeUnit.MINUTES);
    }

    static String next(BlockingQueue<String> events) throws InterruptedException {
        return events.poll(1, TimeUnit.MINUTES);
    }

    static String code(Runnable request) {
        try {
            request.run();
            return "accepted";
        } catch (KubernetesClientException error) {
            return String.valueOf(error.getCode());
        }
    }

    static void expect(String expected, String value) {
        if (!expected.equals(value)) {
            throw new AssertionError("expected " + expected + ", not " + value);
        }
    }
}
