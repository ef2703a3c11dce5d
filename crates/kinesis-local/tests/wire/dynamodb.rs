use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ReturnValuesOnConditionCheckFailure, ScalarAttributeType,
};
use kinesis_local::LocalAws;

use super::dynamodb_client;

pub(crate) async fn create_leases(client: &Client) {
    let key = KeySchemaElement::builder().attribute_name("leaseKey").key_type(KeyType::Hash).build().unwrap();
    let attribute = AttributeDefinition::builder()
        .attribute_name("leaseKey")
        .attribute_type(ScalarAttributeType::S)
        .build()
        .unwrap();
    let call = client.create_table().table_name("leases").key_schema(key).attribute_definitions(attribute);
    call.billing_mode(BillingMode::PayPerRequest).send().await.unwrap();
}

#[tokio::test]
async fn a_conditional_update_fails_with_the_item_that_stands() {
    let aws = LocalAws::start().await.unwrap();
    let client = dynamodb_client(&aws);
    create_leases(&client).await;
    let take = |counter: &str| {
        client
            .update_item()
            .table_name("leases")
            .key("leaseKey", AttributeValue::S("shard".into()))
            .update_expression("SET leaseCounter = :next")
            .condition_expression("attribute_not_exists(leaseCounter) OR leaseCounter = :old")
            .expression_attribute_values(":old", AttributeValue::N(counter.into()))
            .expression_attribute_values(":next", AttributeValue::N("7".into()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
    };
    take("1").await.unwrap();
    let error = take("1").await.unwrap_err().into_service_error();
    let aws_sdk_dynamodb::operation::update_item::UpdateItemError::ConditionalCheckFailedException(error) =
        error
    else {
        panic!("{error:?}")
    };
    assert_eq!(error.item().unwrap()["leaseCounter"], AttributeValue::N("7".into()));
}

#[tokio::test]
async fn two_services_in_one_process_share_nothing() {
    let (one, other) = (LocalAws::start().await.unwrap(), LocalAws::start().await.unwrap());
    create_leases(&dynamodb_client(&one)).await;
    one.create_stream("flights", 1).unwrap();
    let tables = dynamodb_client(&other).list_tables().send().await.unwrap();
    assert!(tables.table_names().is_empty());
    assert!(other.shards("flights").is_err());
}
