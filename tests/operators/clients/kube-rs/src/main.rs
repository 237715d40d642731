//! An operator with kube-rs: a Ship becomes a ConfigMap that it owns, and leaves another one behind.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{finalizer, Event};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const MANAGER: &str = "kube-rs-operator";

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "rust.example.com", version = "v1", kind = "Ship", namespaced, status = "ShipStatus")]
struct ShipSpec {
    masts: u32,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct ShipStatus {
    position: String,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Request(#[from] kube::Error),
    #[error("{0}")]
    Finalizer(#[from] Box<kube::runtime::finalizer::Error<kube::Error>>),
}

async fn reconcile(ship: Arc<Ship>, client: Arc<Client>) -> Result<Action, Failure> {
    let namespace = ship.namespace().unwrap_or_default();
    let ships: Api<Ship> = Api::namespaced(client.as_ref().clone(), &namespace);
    finalizer(&ships, "rust.example.com/farewell", ship, |event| async {
        match event {
            Event::Apply(ship) => launch(&ship, &client, &namespace).await,
            Event::Cleanup(ship) => {
                let owner = None;
                write(&client, &namespace, &format!("{}-farewell", ship.name_any()), "gone", owner).await
            }
        }
    })
    .await
    .map_err(|error| Failure::Finalizer(Box::new(error)))
}

async fn launch(ship: &Ship, client: &Client, namespace: &str) -> Result<Action, kube::Error> {
    let text = format!("{} masts", ship.spec.masts);
    let owner = ship.controller_owner_ref(&());
    write(client, namespace, &ship.name_any(), &text, owner).await?;
    let ships: Api<Ship> = Api::namespaced(client.clone(), namespace);
    let status = serde_json::json!({"status": ShipStatus { position: "harbor".into() }});
    ships.patch_status(&ship.name_any(), &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(Action::requeue(Duration::from_secs(600)))
}

async fn write(
    client: &Client,
    namespace: &str,
    name: &str,
    text: &str,
    owner: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>,
) -> Result<Action, kube::Error> {
    let value = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            owner_references: owner.map(|reference| vec![reference]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("text".into(), text.into())])),
        ..ConfigMap::default()
    };
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    config_maps.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(value)).await?;
    Ok(Action::await_change())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = Ship::crd_name();
    definitions.patch(name, &PatchParams::apply(MANAGER), &Patch::Apply(Ship::crd())).await?;
    await_condition(definitions, name, conditions::is_crd_established()).await?;
    let streaming = watcher::Config::default().streaming_lists();
    Controller::new(Api::<Ship>::all(client.clone()), streaming.clone())
        .owns(Api::<ConfigMap>::all(client.clone()), streaming)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(client))
        .for_each(|result| async move { println!("{result:?}") })
        .await;
    Ok(())
}
